package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/examples/nvmeof/disk"
	"github.com/rdmaloop/rdmaloop/examples/nvmeof/target"
	"github.com/rdmaloop/rdmaloop/provider"
	"github.com/rdmaloop/rdmaloop/provider/soft"
	"github.com/rdmaloop/rdmaloop/reactor"
)

// stopTime is the time in which connections must close at the end.
const stopTime = 15 * time.Second

// serve runs a target until ctx ends.
func serve(ctx context.Context, opts *options, stdout, stderr io.Writer) (err error) {
	sub, closeDisks, err := opts.subsystem()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeDisks()) }()
	addr, err := cm.ListenAddr(ctx, opts.listen)
	if err != nil {
		return err
	}
	p, err := provider.Open(opts.provider, &provider.Config{Soft: &soft.Config{Path: opts.path}, Addr: addr.Addr()})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Close()) }()

	t, err := target.New(&target.Config{
		Subsystems: []*target.Subsystem{sub}, Workers: opts.workers, NoCapsuleData: !opts.capsuleData,
		Log: slog.New(slog.NewTextHandler(stderr, nil)),
	}, opts.loops)
	if err != nil {
		return err
	}
	cfg := &reactor.Config{NumLoops: opts.loops}
	t.Configure(cfg)
	engine, err := reactor.New(p, t, cfg)
	if err != nil {
		return err
	}
	if err = engine.Start(); err != nil {
		return err
	}
	listener, err := engine.Listen(addr, nil)
	if err == nil {
		fmt.Fprintf(stdout, "serving %s at %v\n", sub.NQN, listener.Addr())
		for _, s := range listener.Serves() {
			if s.Err != nil {
				fmt.Fprintf(stderr, "nvmeof: not reached at %v: %v\n", s.Addr, s.Err)
			}
		}
		<-ctx.Done()
	}
	stopCtx, cancel := context.WithTimeout(context.Background(), stopTime)
	defer cancel()
	return errors.Join(err, engine.Shutdown(stopCtx))
}

// subsystem opens the disks. The result closeDisks closes them.
func (o *options) subsystem() (sub *target.Subsystem, closeDisks func() error, err error) {
	sub = &target.Subsystem{NQN: o.nqn, Hosts: o.hosts, AnyHost: len(o.hosts) == 0}
	var disks []*disk.File
	closeDisks = func() (err error) {
		for _, d := range disks {
			err = errors.Join(err, d.Flush(), d.Close())
		}
		return err
	}
	for _, name := range o.files {
		d, err := disk.Open(name, o.size, o.readOnly)
		if err != nil {
			return nil, nil, errors.Join(err, closeDisks())
		}
		disks = append(disks, d)
		sub.Namespaces = append(sub.Namespaces, target.Namespace{Disk: d, BlockSize: o.block, ReadOnly: o.readOnly})
	}
	return sub, closeDisks, nil
}
