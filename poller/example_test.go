//go:build linux

package poller_test

import (
	"fmt"

	"github.com/rdmaloop/rdmaloop/poller"
	"golang.org/x/sys/unix"
)

func Example() {
	// This descriptor is always readable.
	fd, err := unix.Eventfd(1, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC)
	if err != nil {
		panic(err)
	}
	defer unix.Close(fd)

	p, err := poller.New(64)
	if err != nil {
		panic(err)
	}
	defer p.Close()
	if _, err := p.Add(fd, poller.Readable, 7); err != nil {
		panic(err)
	}

	n, err := p.Wait(-1)
	if err != nil {
		panic(err)
	}
	for i := range n {
		if ev, ok := p.Event(i); ok && ev.Ready&poller.Readable != 0 {
			fmt.Println("readable:", ev.Data)
		}
	}
	// Output: readable: 7
}

// Another goroutine gives the owner a task and wakes it.
func ExamplePoller_Wake() {
	p, err := poller.New(64)
	if err != nil {
		panic(err)
	}
	defer p.Close()

	tasks := make(chan string, 1)
	go func() {
		tasks <- "a task"
		p.Wake()
	}()
	for !p.Woken() {
		if _, err := p.Wait(-1); err != nil {
			panic(err)
		}
	}
	fmt.Println(<-tasks)
	// Output: a task
}
