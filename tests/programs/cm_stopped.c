// Connects with a listener at 10.0.0.1 when it is told to, by SIGUSR1, and says what became of it.
#include <arpa/inet.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <rdma/rdma_cma.h>

static void needs(const char *what, int code)
{
	if (code) {
		perror(what);
		exit(2);
	}
}

int main(void)
{
	struct rdma_addrinfo hints = {.ai_port_space = RDMA_PS_TCP}, *info;
	struct ibv_qp_init_attr init = {.qp_type = IBV_QPT_RC, .cap = {2, 2, 1, 1, 0}};
	struct rdma_cm_id *id;
	sigset_t told;
	int number;

	sigemptyset(&told);
	sigaddset(&told, SIGUSR1);
	sigprocmask(SIG_BLOCK, &told, NULL);
	needs("rdma_getaddrinfo", rdma_getaddrinfo("10.0.0.1", "7174", &hints, &info));
	needs("rdma_create_ep", rdma_create_ep(&id, info, NULL, &init));
	printf("ready\n");
	fflush(stdout);
	sigwait(&told, &number);
	needs("rdma_connect", rdma_connect(id, NULL));
	printf("%s\n", rdma_event_str(id->event->event));
	needs("rdma_disconnect", rdma_disconnect(id));
	rdma_destroy_ep(id);
	rdma_freeaddrinfo(info);
	return 0;
}
