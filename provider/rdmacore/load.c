//go:build cgo && linux

#define _GNU_SOURCE /* dlvsym */

#include "rdma.h"

#ifdef RDMALOOP_LINKED

/* The dynamic linker has found the functions. */
int rl_load(char *why, size_t size)
{
	(void)why, (void)size;
	return 0;
}

#else

#include <dlfcn.h>
#include <stdio.h>

struct rl_functions rl_functions;

enum library { VERBS, CM };

static const char *const sonames[] = { [VERBS] = "libibverbs.so.1", [CM] = "librdmacm.so.1" };

static const struct symbol {
	enum library library;
	const char *version, *name;
	size_t offset; /* in struct rl_functions */
} symbols[] = {
#define F(library, version, result, name, parameters, arguments) \
	{ library, version, #name, offsetof(struct rl_functions, name) },
	RL_FUNCTIONS(F)
#undef F
};

/* Finds one symbol. libibverbs has some symbols twice, with different parameters, so the
 * version matters. musl has no dlvsym(3); its dlsym() finds the newest version. */
static void *find(void *library, const struct symbol *s)
{
#ifdef __GLIBC__
	return dlvsym(library, s->name, s->version);
#else
	return dlsym(library, s->name);
#endif
}

static int fail(char *why, size_t size)
{
	const char *reason = dlerror();

	snprintf(why, size, "%s", reason ? reason : "unknown error of the dynamic linker");
	return -1;
}

/* Keeps the libraries open until the process ends: librdmacm keeps its devices open, too.
 * So opening one of them again costs nothing. */
int rl_load(char *why, size_t size)
{
	void *libraries[2];

	for (enum library i = VERBS; i <= CM; i++)
		if (!(libraries[i] = dlopen(sonames[i], RTLD_NOW | RTLD_LOCAL)))
			return fail(why, size);
	for (size_t i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++) {
		void *address = find(libraries[symbols[i].library], &symbols[i]);

		if (!address)
			return fail(why, size);
		*(void **)((char *)&rl_functions + symbols[i].offset) = address;
	}
	return 0;
}

#endif
