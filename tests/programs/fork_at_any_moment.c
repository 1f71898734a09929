// V-12: a process forks while its threads open and close. A child has none of those threads: whatever they had locked
// is free in it, calls that name its parent's objects end, and it can begin anew.
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
#include <infiniband/umad.h>
#include <rdma/rdma_cma.h>

#define CHILDREN 40
#define LIMIT    60 // seconds of a child

static atomic_int is_over;
static atomic_long rounds;

static void *opens(void *nothing)
{
	while (!is_over) {
		struct ibv_device **list = ibv_get_device_list(NULL);
		struct ibv_context *context = list && *list ? ibv_open_device(*list) : NULL;

		if (context) {
			ibv_dealloc_pd(ibv_alloc_pd(context));
			ibv_close_device(context);
		}
		ibv_free_device_list(list);
		rounds++;
	}
	return nothing;
}

static void *binds(void *nothing)
{
	while (!is_over) {
		struct rdma_event_channel *channel = rdma_create_event_channel();
		struct sockaddr any = {.sa_family = AF_INET};
		struct rdma_cm_id *id;

		if (channel && !rdma_create_id(channel, &id, NULL, RDMA_PS_TCP)) {
			rdma_bind_addr(id, &any);
			rdma_listen(id, 1);
			rdma_destroy_id(id);
		}
		rdma_destroy_event_channel(channel);
		rounds++;
	}
	return nothing;
}

static void *looks(void *nothing)
{
	while (!is_over) {
		umad_free_ca_device_list(umad_get_ca_device_list());
		rounds++;
	}
	return nothing;
}

// The child of a moment: every table is asked for.
static int begins_anew(struct rdma_event_channel *of_parent)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct rdma_cm_id *id, *foreign;

	alarm(LIMIT);
	// Whether it is known here is a matter of the moment; that the call ends is not.
	if (!rdma_create_id(of_parent, &foreign, NULL, RDMA_PS_TCP))
		rdma_destroy_id(foreign);
	if (!list || !*list || !channel || rdma_create_id(channel, &id, NULL, RDMA_PS_TCP))
		return 1;
	umad_free_ca_device_list(umad_get_ca_device_list());
	rdma_destroy_id(id);
	rdma_destroy_event_channel(channel);
	ibv_free_device_list(list);
	return 0;
}

int main(void)
{
	void *(*const work[])(void *) = {opens, opens, binds, binds, looks};
	enum { THREADS = sizeof work / sizeof *work };
	struct rdma_event_channel *channel = rdma_create_event_channel();
	pthread_t threads[THREADS];
	int failed = 0;

	for (int i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, work[i], NULL);
	for (int i = 0; i < CHILDREN; i++) {
		int status;
		pid_t child;

		usleep(i * 997 % 5000);
		child = fork();
		if (child == 0)
			_exit(begins_anew(channel));
		if (child < 0 || waitpid(child, &status, 0) != child || status) {
			printf("child %d: status %#x\n", i, status);
			failed++;
		}
	}
	is_over = 1;
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	printf("%d children, %d failed, %ld rounds of threads\n", CHILDREN, failed, (long)rounds);
	return failed != 0 || rounds < THREADS;
}
