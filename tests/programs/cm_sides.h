// Ids of one process on one card, each with a channel, that C programs hold statements of librdmacm against.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <rdma/rdma_cma.h>

#include "statements.h"

#define SELF "10.0.0.1"

#define FAILS(statement, error, call) HOLDS(statement, (errno = 0, (call) == -1 && errno == (error)))

struct side {
	struct rdma_event_channel *channel;
	struct rdma_cm_id *id;
};

static inline struct sockaddr *address(const char *text, int port)
{
	static struct sockaddr_in sins[4];
	static int turn;
	struct sockaddr_in *sin = &sins[turn++ % 4];

	*sin = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(port)};
	inet_pton(AF_INET, text, &sin->sin_addr);
	return (struct sockaddr *)sin;
}

static inline struct rdma_cm_event *next(struct rdma_event_channel *channel, enum rdma_cm_event_type kind)
{
	struct rdma_cm_event *event;

	if (rdma_get_cm_event(channel, &event)) {
		perror("rdma_get_cm_event");
		exit(2);
	}
	HOLDS("CM-57 the event that is due", event->event == kind);
	if (event->event != kind)
		printf("      %s, status %d, instead of %s\n", rdma_event_str(event->event), event->status, rdma_event_str(kind));
	return event;
}

static inline void take(struct rdma_event_channel *channel, enum rdma_cm_event_type kind)
{
	HOLDS("CM-58", rdma_ack_cm_event(next(channel, kind)) == 0);
}

static inline struct side fresh(enum rdma_port_space ps, void *context)
{
	struct side side = {.channel = rdma_create_event_channel()};

	HOLDS("CM-10", side.channel != NULL && side.channel->fd >= 0);
	HOLDS("CM-12", rdma_create_id(side.channel, &side.id, context, ps) == 0);
	HOLDS("CM-12", side.id->context == context && side.id->ps == ps && side.id->channel == side.channel);
	return side;
}

static inline void end(struct side side)
{
	if (side.id->qp)
		rdma_destroy_qp(side.id);
	HOLDS("CM-14", rdma_destroy_id(side.id) == 0);
	rdma_destroy_event_channel(side.channel);
}

static inline struct side listener(enum rdma_port_space ps, int *port)
{
	struct side side = fresh(ps, &side);

	HOLDS("CM-48 0 when unbound", rdma_get_src_port(side.id) == 0 && rdma_get_dst_port(side.id) == 0);
	HOLDS("CM-27", rdma_bind_addr(side.id, address(SELF, 0)) == 0);
	*port = ntohs(rdma_get_src_port(side.id));
	HOLDS("CM-27 a port is picked", *port != 0);
	HOLDS("CM-27 a specific address binds to the device", side.id->verbs != NULL && side.id->port_num == 1);
	HOLDS("CM-32", rdma_listen(side.id, 4) == 0);
	return side;
}

static inline void resolve(struct side side, int port)
{
	HOLDS("CM-25", rdma_resolve_addr(side.id, NULL, address(SELF, port), 2000) == 0);
	take(side.channel, RDMA_CM_EVENT_ADDR_RESOLVED);
	HOLDS("CM-25 it is bound to a device", side.id->verbs != NULL);
	HOLDS("CM-26", rdma_resolve_route(side.id, 2000) == 0);
	take(side.channel, RDMA_CM_EVENT_ROUTE_RESOLVED);
}

static inline struct ibv_qp_init_attr wanted(enum ibv_qp_type type)
{
	return (struct ibv_qp_init_attr){.qp_type = type, .sq_sig_all = 1,
		.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 2, .max_recv_sge = 2, .max_inline_data = 16}};
}

static inline enum ibv_qp_state state_of(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = {0};
	struct ibv_qp_init_attr init;

	HOLDS("V-118", ibv_query_qp(qp, &attr, IBV_QP_STATE, &init) == 0);
	return attr.qp_state;
}
