// Paths that a program names itself (CM-13, CM-16, CM-28, CM-38, RS-3): connections of one card with itself go by them.
// Prints a line for each statement that does not hold; ends with 0 if all do.
#include <fcntl.h>
#include <poll.h>
#include <stddef.h>
#include <rdma/rsocket.h>
#include <rdma/rdma_verbs.h>

#include "cm_sides.h"

#define WHOLE (IBV_PATH_FLAG_GMP | IBV_PATH_FLAG_PRIMARY | IBV_PATH_FLAG_BIDIRECTIONAL)
#define CLASS 0x48
#define LABEL 0x12345
#define LIFE_TIME 16
#define ACK_TIMEOUT (LIFE_TIME + 1)
#define MTU IBV_MTU_512
#define RATE 5
#define EXACTLY (2 << 6)

// The path that resolving the address of the card itself finds, but for what a program may choose.
static struct ibv_path_data path(int port)
{
	struct side side = fresh(RDMA_PS_TCP, NULL);

	resolve(side, port);
	struct ibv_sa_path_rec *rec = side.id->route.path_rec;
	struct ibv_path_data data = {.flags = WHOLE, .path = {.dgid = rec->dgid, .sgid = rec->sgid, .dlid = rec->dlid,
		.slid = rec->slid, .flowlabel_hoplimit = htonl(LABEL << 8 | rec->hop_limit), .tclass = CLASS,
		.reversible_numpath = 0x81, .pkey = rec->pkey, .mtu = MTU | EXACTLY, .rate = RATE | EXACTLY,
		.packetlifetime = LIFE_TIME | EXACTLY}};
	end(side);
	return data;
}

static void resolve_address(struct side side, int port)
{
	HOLDS("CM-25", rdma_resolve_addr(side.id, NULL, address(SELF, port), 2000) == 0);
	take(side.channel, RDMA_CM_EVENT_ADDR_RESOLVED);
}

static int set(struct side side, void *paths, size_t len)
{
	return rdma_set_option(side.id, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, paths, len);
}

// Both ends of a connection along the path have what it says.
static void connects(struct side server, struct rdma_cm_id *id, struct rdma_event_channel *channel)
{
	struct rdma_conn_param param = {.retry_count = 7, .rnr_retry_count = 7};
	struct ibv_qp_init_attr attr = wanted(IBV_QPT_RC), init;
	struct ibv_qp_attr found;
	struct ibv_port_attr port;

	HOLDS("CM-20", id->qp || rdma_create_qp(id, NULL, &attr) == 0);
	HOLDS("CM-33", rdma_connect(id, &param) == 0);
	struct rdma_cm_event *event = next(server.channel, RDMA_CM_EVENT_CONNECT_REQUEST);
	struct rdma_cm_id *passive = event->id;
	rdma_ack_cm_event(event);
	attr = wanted(IBV_QPT_RC);
	HOLDS("CM-20", rdma_create_qp(passive, NULL, &attr) == 0);
	HOLDS("CM-34", rdma_accept(passive, NULL) == 0);
	take(channel, RDMA_CM_EVENT_ESTABLISHED);
	take(server.channel, RDMA_CM_EVENT_ESTABLISHED);
	struct ibv_qp *qps[] = {id->qp, passive->qp};
	HOLDS("V-35", ibv_query_port(id->verbs, 1, &port) == 0);
	for (int i = 0; i < 2; i++) {
		HOLDS("V-118", ibv_query_qp(qps[i], &found, IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_TIMEOUT, &init) == 0);
		HOLDS("CM-16 MTU of the path", found.path_mtu == MTU);
		HOLDS("CM-38 twice its life time", found.timeout == ACK_TIMEOUT);
		if (port.link_layer == IBV_LINK_LAYER_ETHERNET)
			HOLDS("CM-16 class and label", found.ah_attr.grh.traffic_class == CLASS
				&& found.ah_attr.grh.flow_label == LABEL);
		else
			HOLDS("CM-16 LIDs", found.ah_attr.dlid == port.lid);
	}
	HOLDS("CM-42", rdma_disconnect(passive) == 0);
	take(channel, RDMA_CM_EVENT_DISCONNECTED);
	rdma_destroy_qp(passive);
	HOLDS("CM-14", rdma_destroy_id(passive) == 0);
}

static void of_ids(void)
{
	int port;
	struct side server = listener(RDMA_PS_TCP, &port), client = fresh(RDMA_PS_TCP, NULL);
	struct ibv_path_data good = path(port), bad = good, list[2] = {good, good};

	FAILS("CM-16 the id is bound before", EINVAL, set(client, &good, sizeof good));
	resolve_address(client, port);
	FAILS("CM-16 none", EINVAL, set(client, &good, 0));
	FAILS("CM-16 one and a half", EINVAL, set(client, list, sizeof good * 3 / 2));
	bad.flags = IBV_PATH_FLAG_ALTERNATE | IBV_PATH_FLAG_BIDIRECTIONAL;
	FAILS("CM-16 for data and management", EINVAL, set(client, &bad, sizeof bad));
	bad = good;
	bad.path.sgid.raw[15] ^= 0x55;
	FAILS("CM-16 it begins at the port", EINVAL, set(client, &bad, sizeof bad));
	bad = good;
	memset(&bad.path.dgid, 0, sizeof bad.path.dgid);
	FAILS("CM-16 it leads somewhere", EINVAL, set(client, &bad, sizeof bad));
	bad = good;
	bad.path.pkey = htons(0x1234);
	FAILS("CM-16 a partition of the port", EINVAL, set(client, &bad, sizeof bad));
	bad = good;
	bad.path.mtu = 9;
	FAILS("CM-16 an MTU", EINVAL, set(client, &bad, sizeof bad));
	list[0].flags = 0;
	HOLDS("CM-16 the first whole path of a list", set(client, list, sizeof list) == 0);
	take(client.channel, RDMA_CM_EVENT_ROUTE_RESOLVED);
	struct ibv_sa_path_rec *rec = client.id->route.path_rec;
	HOLDS("CM-13", client.id->route.num_paths == 1 && rec->traffic_class == CLASS && ntohl(rec->flow_label) == LABEL
		&& rec->mtu == MTU && rec->rate == RATE && rec->packet_life_time == LIFE_TIME);
	FAILS("CM-16 once", EINVAL, set(client, &good, sizeof good));
	connects(server, client.id, client.channel);
	end(client);
	end(server);
}

// CM-28: hints name a path; without a node it says where.
static void of_hints(void)
{
	// On InfiniBand the GID of a path is not the address that the card has beside it: any will do.
	struct side server = fresh(RDMA_PS_TCP, NULL);
	char service[8];
	int port;

	HOLDS("CM-27, CM-32", !rdma_bind_addr(server.id, address("0.0.0.0", 0)) && !rdma_listen(server.id, 4));
	port = ntohs(rdma_get_src_port(server.id));
	struct ibv_path_data good = path(port), none = {0};
	struct rdma_addrinfo hints = {.ai_port_space = RDMA_PS_TCP, .ai_route = &good, .ai_route_len = sizeof good}, *info;
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct ibv_qp_init_attr attr = wanted(IBV_QPT_RC);
	struct rdma_cm_id *id;

	snprintf(service, sizeof service, "%d", port);
	HOLDS("CM-28", rdma_getaddrinfo(NULL, service, &hints, &info) == 0);
	HOLDS("CM-28 the path goes along", info->ai_route_len == sizeof good && info->ai_route != &good
		&& !memcmp(info->ai_route, &good, sizeof good) && info->ai_dst_len && info->ai_src_len);
	HOLDS("CM-45 the route is resolved by it", rdma_create_ep(&id, info, NULL, &attr) == 0
		&& id->route.path_rec->traffic_class == CLASS && ntohs(rdma_get_dst_port(id)) == port);
	HOLDS("CM-15", rdma_migrate_id(id, channel) == 0);
	connects(server, id, channel);
	rdma_destroy_ep(id);
	HOLDS("CM-29 path and addresses go with it", (rdma_freeaddrinfo(info), 1));
	hints.ai_route = &none;
	FAILS("CM-28 a path that is none", EINVAL, rdma_getaddrinfo(NULL, NULL, &hints, &info));
	rdma_destroy_event_channel(channel);
	end(server);
}

static void of_sockets(void)
{
	struct sockaddr *to = address(SELF, 7979);
	struct ibv_path_data good = path(7979), found;
	int at = rsocket(AF_INET, SOCK_STREAM, 0), near = rsocket(AF_INET, SOCK_STREAM, 0), far;
	int datagrams = rsocket(AF_INET, SOCK_DGRAM, 0);
	socklen_t len = sizeof found;
	size_t known = offsetof(struct ibv_path_record, preference);

	HOLDS("RS-1", !rbind(at, to, sizeof(struct sockaddr_in)) && !rlisten(at, 1));
	FAILS("RS-3 a path", EINVAL, rsetsockopt(near, SOL_RDMA, RDMA_ROUTE, &good, sizeof good - 1));
	FAILS("RS-3 of streams", EINVAL, rsetsockopt(datagrams, SOL_RDMA, RDMA_ROUTE, &good, sizeof good));
	HOLDS("RS-3", rsetsockopt(near, SOL_RDMA, RDMA_ROUTE, &good, sizeof good) == 0);
	rfcntl(near, F_SETFL, O_NONBLOCK);
	FAILS("RS-1", EINPROGRESS, rconnect(near, to, sizeof(struct sockaddr_in)));
	HOLDS("RS-1", (far = raccept(at, NULL, NULL)) >= 0);
	struct pollfd open = {.fd = near, .events = POLLOUT};
	HOLDS("RS-6", rpoll(&open, 1, -1) == 1 && open.revents == POLLOUT);
	HOLDS("RS-3 it goes this way", rgetsockopt(near, SOL_RDMA, RDMA_ROUTE, &found, &len) == 0 && len == sizeof found
		&& !memcmp(&found.path, &good.path, known));
	FAILS("RS-3 once", EINVAL, rsetsockopt(near, SOL_RDMA, RDMA_ROUTE, &good, sizeof good));
	rfcntl(near, F_SETFL, 0);
	HOLDS("RS-1", rsend(near, "by it", 6, 0) == 6 && rrecv(far, &found, sizeof found, 0) == 6
		&& !strcmp((char *)&found, "by it"));
	HOLDS("RS-1", !rclose(near) && !rclose(far) && !rclose(at) && !rclose(datagrams));
}

int main(void)
{
	of_ids();
	of_hints();
	of_sockets();
	printf("%d asked, %d do not hold\n", asked, wrong);
	return wrong != 0;
}
