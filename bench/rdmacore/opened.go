//go:build !rdmacore && cgo && linux

// Command rdmacore measures package rdmacore with a stub of libibverbs and librdmacm. This
// build, without the tag rdmacore, runs the steps in which the provider opens the stub as a
// library; the build with the tag starts it.
package main

/*
#cgo LDFLAGS: -ldl
#include <dlfcn.h>
#include <stddef.h>

static int (*stub_start)(int, int, int);
static int (*stub_meet)(void);

// Returns -1 if the library that the provider will open is not the stub, or the errno of
// stub_start().
static int start(int memory, int socket, int side)
{
	void *library = dlopen("libibverbs.so.1", RTLD_NOW);

	if (!library)
		return -1;
	stub_start = dlsym(library, "stub_start");
	stub_meet = dlsym(library, "stub_meet");
	return stub_start && stub_meet ? stub_start(memory, socket, side) : -1;
}

static void meet(void) { stub_meet(); }
*/
import "C"

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

func main() {
	err := errors.New("this build only runs steps of the one with the tag: go run -tags rdmacore ./bench/rdmacore")
	if len(os.Args) > 1 && os.Args[1] == childArg {
		err = runChild(os.Args[2:])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "rdmacore:", err)
		os.Exit(1)
	}
}

func startStub(side int) error {
	switch e := C.start(memoryFD, socketFD, C.int(side)); {
	case e < 0:
		return errors.New("LD_LIBRARY_PATH has no stub")
	case e > 0:
		return fmt.Errorf("start the stub: %w", syscall.Errno(e))
	}
	return nil
}

func meet() { C.meet() }

func runC(*spec, int) ([]uint64, error) {
	return nil, errors.New("the step c needs the build with the tag")
}
