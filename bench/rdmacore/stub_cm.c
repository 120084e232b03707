//go:build rdmacore && cgo && linux

#include "stub.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

struct shared *stub_memory;
int stub_side;
int stub_socket;

/* A message to the peer's process. type is the event that the message causes there. */
struct message {
	enum rdma_cm_event_type type;
	struct rdma_conn_param param;
	uint8_t data[256];
};

/* An event that waits to be fetched. Its private data is in the array data. */
struct stub_event {
	struct rdma_cm_event event;
	uint8_t data[256];
	struct stub_event *next;
};

struct stub_channel {
	struct rdma_event_channel channel;
	struct stub_event *first;
};

/* Protects the lists of events and the variables below. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct rdma_cm_id *listener;
static struct rdma_cm_id *connection; /* the only connection of this process */

/* Adds an event for an ID to its channel. The caller holds the lock. */
static void push(struct rdma_cm_id *id, const struct message *m)
{
	struct stub_channel *channel = (struct stub_channel *)id->channel;
	struct stub_event *e = calloc(1, sizeof(*e)), **end = &channel->first;
	uint64_t one = 1;

	if (!e)
		abort();
	e->event.id = id;
	e->event.event = m->type;
	if (m->type == RDMA_CM_EVENT_CONNECT_REQUEST)
		e->event.listen_id = listener;
	e->event.param.conn = m->param;
	memcpy(e->data, m->data, sizeof(e->data));
	e->event.param.conn.private_data = e->data;
	while (*end)
		end = &(*end)->next;
	*end = e;
	if (write(channel->channel.fd, &one, sizeof(one)) < 0)
		abort();
}

static void push_type(struct rdma_cm_id *id, enum rdma_cm_event_type type)
{
	struct message m = { .type = type };

	push(id, &m);
}

static int tell(enum rdma_cm_event_type type, const struct rdma_conn_param *param)
{
	struct message m = { .type = type };

	if (param) {
		m.param = *param;
		if (param->private_data)
			memcpy(m.data, param->private_data, param->private_data_len);
	}
	return send(stub_socket, &m, sizeof(m), MSG_NOSIGNAL) < 0 ? -1 : 0;
}

/* Creates the ID of a connection request. */
static struct rdma_cm_id *request(void)
{
	struct rdma_cm_id *id = calloc(1, sizeof(*id));

	if (!id)
		abort();
	*id = *listener;
	id->qp = NULL;
	id->route.addr.dst_sin = id->route.addr.src_sin;
	return connection = id;
}

/* Receives messages of the peer until the peer's process has ended. */
static void *receive_messages(void *unused)
{
	struct message m;

	while (recv(stub_socket, &m, sizeof(m), 0) == sizeof(m)) {
		struct rdma_cm_id *id;

		pthread_mutex_lock(&lock);
		id = m.type == RDMA_CM_EVENT_CONNECT_REQUEST ? request() : connection;
		if (id)
			push(id, &m);
		pthread_mutex_unlock(&lock);
	}
	return unused;
}

int stub_start(int memory, int socket, int side)
{
	pthread_t thread;

	stub_memory = mmap(NULL, sizeof(*stub_memory), PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
	if (stub_memory == MAP_FAILED)
		return errno;
	stub_socket = socket;
	stub_side = side;
	return pthread_create(&thread, NULL, receive_messages, NULL);
}

struct rdma_event_channel *rdma_create_event_channel(void)
{
	struct stub_channel *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->channel.fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC | EFD_SEMAPHORE);
	return &c->channel;
}

void rdma_destroy_event_channel(struct rdma_event_channel *channel)
{
	close(channel->fd);
	free(channel);
}

/* Completes a connection on the side that dials. When the peer has accepted, this
 * function moves the queue pair to RTS and confirms the connection. */
static void follow(struct rdma_cm_id *id, enum rdma_cm_event_type type)
{
	if (type != RDMA_CM_EVENT_ESTABLISHED || !id->qp || id->qp->state >= IBV_QPS_RTS)
		return;
	stub_connect(id->qp);
	id->qp->state = IBV_QPS_RTS;
	tell(RDMA_CM_EVENT_ESTABLISHED, NULL);
}

int rdma_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **out)
{
	struct stub_channel *c = (struct stub_channel *)channel;
	struct stub_event *e;
	uint64_t one;

	if (read(channel->fd, &one, sizeof(one)) < 0)
		return -1;
	pthread_mutex_lock(&lock);
	e = c->first;
	c->first = e->next;
	pthread_mutex_unlock(&lock);
	follow(e->event.id, e->event.event);
	*out = &e->event;
	return 0;
}

int rdma_ack_cm_event(struct rdma_cm_event *event)
{
	free(event);
	return 0;
}

int rdma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **out, void *context,
		   enum rdma_port_space ps)
{
	struct rdma_cm_id *id = calloc(1, sizeof(*id));

	if (!id)
		return -1;
	id->channel = channel;
	id->context = context;
	id->ps = ps;
	id->verbs = &stub_context;
	id->port_num = 1;
	*out = id;
	return 0;
}

int rdma_destroy_id(struct rdma_cm_id *id)
{
	pthread_mutex_lock(&lock);
	if (listener == id)
		listener = NULL;
	if (connection == id)
		connection = NULL;
	pthread_mutex_unlock(&lock);
	free(id);
	return 0;
}

int rdma_bind_addr(struct rdma_cm_id *id, struct sockaddr *addr)
{
	id->route.addr.src_sin = *(struct sockaddr_in *)addr;
	return 0;
}

int rdma_listen(struct rdma_cm_id *id, int backlog)
{
	(void)backlog;
	listener = id;
	return 0;
}

int rdma_resolve_addr(struct rdma_cm_id *id, struct sockaddr *src, struct sockaddr *dst, int ms)
{
	(void)src, (void)ms;
	id->route.addr.dst_sin = *(struct sockaddr_in *)dst;
	id->route.addr.src_sin = *(struct sockaddr_in *)dst;
	pthread_mutex_lock(&lock);
	push_type(id, RDMA_CM_EVENT_ADDR_RESOLVED);
	pthread_mutex_unlock(&lock);
	return 0;
}

int rdma_resolve_route(struct rdma_cm_id *id, int ms)
{
	(void)ms;
	pthread_mutex_lock(&lock);
	push_type(id, RDMA_CM_EVENT_ROUTE_RESOLVED);
	pthread_mutex_unlock(&lock);
	return 0;
}

int rdma_create_qp(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	id->qp = ibv_create_qp(pd, attr);
	if (!id->qp)
		return -1;
	id->qp->state = IBV_QPS_INIT;
	return 0;
}

void rdma_destroy_qp(struct rdma_cm_id *id)
{
	ibv_destroy_qp(id->qp);
	id->qp = NULL;
}

int rdma_connect(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
	connection = id;
	param->qp_num = id->qp->qp_num;
	return tell(RDMA_CM_EVENT_CONNECT_REQUEST, param);
}

int rdma_accept(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
	stub_connect(id->qp);
	id->qp->state = IBV_QPS_RTS;
	param->qp_num = id->qp->qp_num;
	return tell(RDMA_CM_EVENT_ESTABLISHED, param);
}

int rdma_disconnect(struct rdma_cm_id *id)
{
	if (id->qp)
		stub_fail(id->qp);
	return tell(RDMA_CM_EVENT_DISCONNECTED, NULL);
}

int rdma_migrate_id(struct rdma_cm_id *id, struct rdma_event_channel *channel)
{
	id->channel = channel;
	return 0;
}

int rdma_set_option(struct rdma_cm_id *id, int level, int name, void *value, size_t size)
{
	(void)id, (void)level, (void)name, (void)value, (void)size;
	return 0;
}
