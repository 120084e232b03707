//go:build linux

package hostile

import (
	"context"
	"errors"
	"time"

	"github.com/rdmaloop/rdmaloop/provider/soft"
	"github.com/rdmaloop/rdmaloop/reactor"
)

// A shutdown that takes longer is a hang. The limit is far longer than
// reactor.Config.Limits.DrainTimeout.
const shutdownLimit = time.Minute

// A node is a device and an engine with one loop.
type node struct {
	device *soft.Provider
	engine *reactor.Engine
}

// open opens the device and the engine with the settings of the spec.
func (n *node) open(s *Spec, h reactor.Handler) error {
	settings := &soft.Config{
		Path: s.Path, PrivateRegions: s.PrivateRegions,
		MaxConnsPerAddress: s.MaxConnsPerAddress, MaxConnsPerUser: s.MaxConnsPerUser,
	}
	if s.AnyUser {
		settings.AllowedUsers = []uint32{soft.AnyUser}
	}
	device, err := soft.Open(settings)
	if err != nil {
		return err
	}
	n.device = device
	n.engine, err = reactor.New(device, h, &reactor.Config{
		Memory:         reactor.Memory{SharedRecvBuffers: s.SharedRecvBuffers},
		MaxConns:       s.MaxConns,
		MaxLongMessage: s.MaxLongMessage,
		Transport:      reactor.Transport{Keepalive: s.Keepalive, AckTimeout: s.AckTimeout},
		Limits:         reactor.Limits{ConnectTimeout: s.ConnectTimeout, DecisionTimeout: s.DecisionTimeout, DrainTimeout: s.DrainTimeout},
	})
	if err == nil {
		err = n.engine.Start()
	}
	return err
}

// close closes all connections, the engine and the device.
func (n *node) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), shutdownLimit)
	defer cancel()
	return errors.Join(n.engine.Shutdown(ctx), n.device.Close())
}

// onLoop runs fn() on the loop and waits for it.
func (n *node) onLoop(fn func()) error {
	done := make(chan struct{})
	if err := n.engine.Loop(0).Post(func() { fn(); close(done) }); err != nil {
		return err
	}
	<-done
	return nil
}

// counters returns the counters of the device by name.
func (n *node) counters() map[string]uint64 {
	devices, err := n.device.Devices()
	if err != nil {
		return nil
	}
	list, err := devices[0].Counters(1)
	if err != nil {
		return nil
	}
	byName := make(map[string]uint64)
	for _, c := range list {
		byName[c.Name] = c.Value
	}
	return byName
}
