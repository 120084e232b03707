package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"runtime"

	"github.com/rdmaloop/rdmaloop/cmd/rdmaloop/internal/doctor"
)

func runDoctor(_ context.Context, f *flags, args []string) error {
	h := doctor.Host{Root: "/", GOMAXPROCS: runtime.GOMAXPROCS(0)}
	port := uint(4791)
	f.TextVar(&h.Addr, "addr", netip.Addr{}, "`address` that the program will use")
	f.Func("cpus", "`list` of processors to which loops will be pinned, such as 0,2-3", func(text string) (err error) {
		if h.CPUs, err = doctor.ParseList(text); err == nil && len(h.CPUs) == 0 {
			err = errors.New("no processor is named, as in 0,2-3")
		}
		return err
	})
	f.UintVar(&port, "port", port, "UDP `port` of the wire path, as soft.Config.WirePort")
	if _, err := f.parse(args, 0, 0); err != nil {
		return err
	}
	if port == 0 || port > 65535 {
		return usagef("-port %d: must be from 1 to 65535", port)
	}
	h.Port = uint16(port)
	list := h.Examine()
	if _, err := fmt.Fprint(f.stdout, doctor.Write(list, f.json)); err != nil {
		return err
	}
	for _, finding := range list {
		if finding.Level == doctor.Problem {
			return errFound
		}
	}
	return nil
}
