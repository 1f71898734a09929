// Calls of librdmacm that find nothing left: no descriptor, no queue, no place in a list. Each says so, and works as
// soon as there is something again.
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>

#include "wrong_use.h"

#define MAX_MEMBERS 16 // QPs of a function in a multicast group

static struct ibv_qp_init_attr queues(enum ibv_qp_type type)
{
	return (struct ibv_qp_init_attr){.qp_type = type, .cap = {2, 2, 1, 1, 0}};
}

static struct rdma_cm_id *bound_id(struct rdma_event_channel *channel, enum rdma_port_space ps)
{
	struct sockaddr_in self = address(SELF, 0);
	struct rdma_cm_id *id;

	if (rdma_create_id(channel, &id, NULL, ps) || rdma_bind_addr(id, (struct sockaddr *)&self)) {
		perror("a bound id");
		exit(2);
	}
	return id;
}

// Before the first card is open, and behind it.
static void devices(void)
{
	struct ibv_context **list = NULL;
	int count = 0;

	WITHOUT_DESCRIPTORS(NONE(EMFILE, list = rdma_get_devices(&count)));
	list = rdma_get_devices(&count);
	expect("rdma_get_devices", list != NULL && count == 1, 1, 0);
	rdma_free_devices(list);
}

static void descriptors_of_ids(struct rdma_event_channel *channel)
{
	struct sockaddr_in self = address(SELF, 0);
	struct sockaddr *addr = (struct sockaddr *)&self;
	struct rdma_addrinfo hints = {.ai_flags = RAI_PASSIVE, .ai_src_addr = addr, .ai_src_len = sizeof self}, *info;
	struct ibv_qp_init_attr init = queues(IBV_QPT_RC);
	struct ibv_qp_init_attr_ex ex = {.qp_type = IBV_QPT_RC, .cap = init.cap};
	struct rdma_cm_id *id, *sync;
	struct rdma_cm_event *event;

	WITHOUT_DESCRIPTORS(NONE(EMFILE, rdma_create_event_channel()));
	WITHOUT_DESCRIPTORS(FAILS(EMFILE, rdma_create_id(NULL, &sync, NULL, RDMA_PS_TCP)));
	WORKS(rdma_create_id(NULL, &sync, NULL, RDMA_PS_TCP));
	WORKS(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP));
	WITHOUT_DESCRIPTORS(FAILS(EMFILE, rdma_migrate_id(id, NULL)));
	expect("rdma_migrate_id", id->channel == channel, 1, 0);
	WITHOUT_DESCRIPTORS(FAILS(EMFILE, rdma_bind_addr(id, addr)));
	// Numbers are looked up nowhere.
	WITHOUT_DESCRIPTORS(WORKS(rdma_getaddrinfo(SELF, "7471", NULL, &info)));
	rdma_freeaddrinfo(info);
	WORKS(rdma_getaddrinfo(NULL, NULL, &hints, &info));
	WITHOUT_DESCRIPTORS(FAILS(EMFILE, rdma_create_ep(&sync, info, NULL, NULL)));
	rdma_freeaddrinfo(info);
	// A synchronous id waits for its result, which is the errno; another one is told.
	WITHOUT_DESCRIPTORS(FAILS(EMFILE, rdma_resolve_addr(sync, NULL, addr, 100)));
	WORKS(rdma_resolve_addr(sync, NULL, addr, 100));
	WITHOUT_DESCRIPTORS(WORKS(rdma_resolve_addr(id, NULL, addr, 100)));
	WORKS(rdma_get_cm_event(channel, &event));
	expect("rdma_resolve_addr", event->event == RDMA_CM_EVENT_ADDR_ERROR && event->status == -EMFILE, 1, 0);
	rdma_ack_cm_event(event);
	WITHOUT_DESCRIPTORS(FAILS(EMFILE, rdma_create_qp(sync, NULL, &init)));
	WITHOUT_DESCRIPTORS(FAILS(EMFILE, rdma_create_qp_ex(sync, &ex)));
	expect("nothing is left of it", !sync->qp && !sync->recv_cq && !sync->recv_cq_channel && !init.recv_cq, 1, 0);
	WORKS(rdma_create_qp(sync, NULL, &init));
	rdma_destroy_qp(sync);
	WORKS(rdma_destroy_id(sync));
	WORKS(rdma_destroy_id(id));
	id = bound_id(channel, RDMA_PS_TCP);
	WITHOUT_DESCRIPTORS(FAILS(EMFILE, rdma_listen(id, 1)));
	WORKS(rdma_listen(id, 1));
	WORKS(rdma_destroy_id(id));
}

// As many SRQs as the card has.
static void queues_of_the_card(struct rdma_event_channel *channel)
{
	struct rdma_cm_id *id = bound_id(channel, RDMA_PS_TCP);
	struct ibv_srq_init_attr attr = {.attr = {.max_wr = 1, .max_sge = 1}};
	struct ibv_srq_init_attr_ex ex = {.attr = attr.attr};
	struct ibv_device_attr device;
	struct ibv_srq **all;
	int count = 0;

	ibv_query_device(id->verbs, &device);
	all = calloc(device.max_srq + 1, sizeof *all);
	while (count <= device.max_srq && (all[count] = ibv_create_srq(id->pd, &attr)))
		count++;
	FAILS(ENOMEM, rdma_create_srq(id, NULL, &attr));
	FAILS(ENOMEM, rdma_create_srq_ex(id, &ex));
	while (count--)
		ibv_destroy_srq(all[count]);
	WORKS(rdma_create_srq(id, NULL, &attr));
	rdma_destroy_srq(id);
	WORKS(rdma_destroy_id(id));
	free(all);
}

static void members(struct rdma_event_channel *channel)
{
	struct sockaddr_in group = address("239.9.9.9", 0);
	struct sockaddr *addr = (struct sockaddr *)&group;
	struct rdma_cm_join_mc_attr_ex join = {.addr = addr,
		.comp_mask = RDMA_CM_JOIN_MC_ATTR_ADDRESS | RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS};
	struct rdma_cm_id *ids[MAX_MEMBERS + 2];
	struct rdma_cm_event *event;

	for (int i = 0; i < MAX_MEMBERS + 2; i++) {
		struct ibv_qp_init_attr init = queues(IBV_QPT_UD);
		int is_full = i >= MAX_MEMBERS;

		ids[i] = bound_id(channel, RDMA_PS_UDP);
		WORKS(rdma_create_qp(ids[i], NULL, &init));
		if (i % 2)
			WORKS(rdma_join_multicast_ex(ids[i], &join, NULL));
		else
			WORKS(rdma_join_multicast(ids[i], addr, NULL));
		WORKS(rdma_get_cm_event(channel, &event));
		expect("what has become of it", event->event == (is_full ? RDMA_CM_EVENT_MULTICAST_ERROR
			: RDMA_CM_EVENT_MULTICAST_JOIN) && event->status == (is_full ? -ENOMEM : 0), 1, 0);
		rdma_ack_cm_event(event);
		if (is_full)
			FAILS(EADDRNOTAVAIL, rdma_leave_multicast(ids[i], addr));
	}
	for (int i = 0; i < MAX_MEMBERS + 2; i++)
		WORKS(rdma_destroy_id(ids[i]));
}

static struct rdma_cm_event *next(struct rdma_event_channel *channel, enum rdma_cm_event_type type)
{
	struct rdma_cm_event *event = NULL;

	WORKS(rdma_get_cm_event(channel, &event));
	expect("the event that is due", event->event, type, 0);
	return event;
}

static struct rdma_cm_id *asks(struct rdma_event_channel *channel, struct rdma_cm_id *listener)
{
	struct sockaddr_in to = address(SELF, ntohs(rdma_get_src_port(listener)));
	struct rdma_conn_param param = {.retry_count = 7, .rnr_retry_count = 7};
	struct ibv_qp_init_attr init = queues(IBV_QPT_RC);
	struct rdma_cm_id *id;

	WORKS(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP));
	WORKS(rdma_resolve_addr(id, NULL, (struct sockaddr *)&to, 1000));
	rdma_ack_cm_event(next(channel, RDMA_CM_EVENT_ADDR_RESOLVED));
	WORKS(rdma_resolve_route(id, 1000));
	rdma_ack_cm_event(next(channel, RDMA_CM_EVENT_ROUTE_RESOLVED));
	WORKS(rdma_create_qp(id, NULL, &init));
	WORKS(rdma_connect(id, &param));
	return id;
}

// A listener that may have one request waiting; a request that waits until there is a descriptor for it.
static void requests(struct rdma_event_channel *channel)
{
	struct rdma_cm_id *listener = bound_id(NULL, RDMA_PS_TCP), *first, *second, *got = NULL;
	struct rdma_event_channel *others = rdma_create_event_channel();
	struct rdma_cm_event *event;

	WORKS(rdma_listen(listener, 1));
	first = asks(channel, listener);
	second = asks(others, listener);
	event = next(others, RDMA_CM_EVENT_REJECTED);
	expect("rdma_connect", event->status, 28, 0);
	rdma_ack_cm_event(event);
	WITHOUT_DESCRIPTORS(FAILS(EMFILE, rdma_get_request(listener, &got)));
	WORKS(rdma_get_request(listener, &got));
	WITHOUT_DESCRIPTORS(WORKS(rdma_reject(got, NULL, 0)));
	rdma_ack_cm_event(next(channel, RDMA_CM_EVENT_REJECTED));
	WORKS(rdma_destroy_id(got) || rdma_destroy_id(first) || rdma_destroy_id(second) || rdma_destroy_id(listener));
	rdma_destroy_event_channel(others);
}

// A send queue of two.
static void posts(struct rdma_event_channel *channel)
{
	struct rdma_cm_id *id = bound_id(channel, RDMA_PS_UDP);
	struct ibv_qp_init_attr init = queues(IBV_QPT_UD);
	struct rdma_cm_event *event;
	char bytes[64];

	WORKS(rdma_create_qp(id, NULL, &init));
	struct ibv_mr *mr = rdma_reg_msgs(id, bytes, sizeof bytes);
	for (unsigned i = 0; i < init.cap.max_recv_wr; i++)
		WORKS(rdma_post_recv(id, NULL, bytes, sizeof bytes, mr));
	FAILS(ENOMEM, rdma_post_recv(id, NULL, bytes, sizeof bytes, mr));
	rdma_destroy_qp(id);
	WORKS(rdma_dereg_mr(mr));
	WORKS(rdma_destroy_id(id));
	// A channel on which there is nothing.
	fcntl(channel->fd, F_SETFL, fcntl(channel->fd, F_GETFL) | O_NONBLOCK);
	FAILS(EAGAIN, rdma_get_cm_event(channel, &event));
}

int main(void)
{
	struct rdma_event_channel *channel;

	kind = "exhausted";
	devices();
	channel = rdma_create_event_channel();
	descriptors_of_ids(channel);
	queues_of_the_card(channel);
	members(channel);
	requests(channel);
	posts(channel);
	rdma_destroy_event_channel(channel);
	printf("%d calls, %d wrong answers\n", asked, wrong);
	return wrong != 0;
}
