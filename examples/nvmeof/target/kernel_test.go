package target_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/signal"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/examples/nvmeof/initiator"
	"github.com/rdmaloop/rdmaloop/examples/nvmeof/nvme"
	"github.com/rdmaloop/rdmaloop/examples/nvmeof/target"
	"github.com/rdmaloop/rdmaloop/provider"
	"github.com/rdmaloop/rdmaloop/provider/soft"
	"github.com/rdmaloop/rdmaloop/reactor"
)

// Environment variables of the tests that take part in a test with the kernel's NVMe host.
// The virtual machine of internal/vm sets them, in its cases nvmeof-hostile and
// nvmeof-delayed-write.
const (
	envListen     = "NVMEOF_LISTEN"     // address and port at which the test serves a disk
	envAttack     = "NVMEOF_ATTACK"     // address and port of a target to attack
	envFrom       = "NVMEOF_FROM"       // local address of the attacker
	envController = "NVMEOF_CONTROLLER" // controller that the kernel's host has there
	envProvider   = "NVMEOF_PROVIDER"   // provider of the test
)

// openNamed opens the provider that the environment names.
func openNamed(t *testing.T) cm.Provider {
	p, err := provider.Open(os.Getenv(envProvider), &provider.Config{Soft: &soft.Config{Path: soft.PathWire}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	return p
}

func addrFrom(t *testing.T, variable string) netip.AddrPort {
	text := os.Getenv(variable)
	if text == "" {
		t.Skip("needs the kernel's NVMe host: " + variable + " is not set")
	}
	addr, err := netip.ParseAddrPort(text)
	require.NoError(t, err)
	return addr
}

// TestAttackBesideKernel attacks a target whose disk the kernel's host uses.
func TestAttackBesideKernel(t *testing.T) {
	addr := addrFrom(t, envAttack)
	controller, err := strconv.ParseUint(os.Getenv(envController), 10, 16)
	require.NoError(t, err)
	host, err := initiator.NewHost(openNamed(t), &initiator.Config{
		NQN: hostNQN, ID: [16]byte{2}, From: netip.MustParseAddr(os.Getenv(envFrom)),
		Reactor: reactor.Config{MaxInFlight: 256, MaxMessage: 64 + 4096},
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, host.Close()) })
	attackAll(t, &hostile{addr: addr, host: host, foreign: uint16(controller)})
}

// heldOffset is the place in bytes whose first write TestDelayedWrite holds up.
const heldOffset = 1 << 20

// TestDelayedWrite serves a disk to the kernel's host. The first write of heldOffset waits
// in a worker until the host has reset its controller, and until the Connect command of its
// new I/O queue has waited for two seconds. In this time no other write of this place may
// come. The test ends with SIGINT.
func TestDelayedWrite(t *testing.T) {
	addr := addrFrom(t, envListen)
	h := newHoldingTarget(t)
	engineConfig := &reactor.Config{NumLoops: 1}
	h.Configure(engineConfig)
	engine, err := reactor.New(openNamed(t), h, engineConfig)
	require.NoError(t, err)
	require.NoError(t, engine.Start())
	_, err = engine.Listen(addr, nil)
	require.NoError(t, err)
	stopped, stop := signal.NotifyContext(t.Context(), os.Interrupt)
	defer stop()
	fmt.Println("serving at", addr)
	<-stopped.Done()
	require.NoError(t, engine.Shutdown(context.Background()))
	require.Equal(t, holdEnded, h.state, "a write was held up, and ended before others came")
}

// A holdState is the progress of TestDelayedWrite.
type holdState int

const (
	holdNothing  holdState = iota // no write of heldOffset has come
	holdWrite                     // the first one waits
	holdConnect                   // the host has sent the Connect command of a new I/O queue
	holdEnded                     // the write was stored
	holdOvertook                  // another write came while it waited: a mistake
)

// A holdingTarget is a target that holds up a write.
type holdingTarget struct {
	*target.Target
	proceed chan struct{}

	mu    sync.Mutex
	state holdState
}

func newHoldingTarget(t *testing.T) *holdingTarget {
	h := &holdingTarget{proceed: make(chan struct{})}
	disk := &memoryDisk{bytes: make([]byte, diskSize), hook: h.hold}
	var err error
	h.Target, err = target.New(&target.Config{Workers: 4, Subsystems: []*target.Subsystem{{
		NQN: subsystem, AnyHost: true, Namespaces: []target.Namespace{{Disk: disk, BlockSize: 4096}},
	}}}, 1)
	require.NoError(t, err)
	return h
}

// change changes the state from old to next, and reports whether it was old.
func (h *holdingTarget) change(old, next holdState) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.state != old {
		return false
	}
	h.state = next
	return true
}

// hold is the hook of the disk.
func (h *holdingTarget) hold(operation string, offset int64) error {
	if operation != "write" || offset != heldOffset {
		return nil
	}
	if h.change(holdNothing, holdWrite) {
		fmt.Println("a write waits")
		<-h.proceed
		h.change(holdConnect, holdEnded)
		return nil
	}
	if h.change(holdWrite, holdOvertook) || h.change(holdConnect, holdOvertook) {
		return errors.New("a write has overtaken an older one")
	}
	return nil
}

// OnMessage implements reactor.Handler. It sees the Connect commands of I/O queues.
func (h *holdingTarget) OnMessage(c *reactor.Conn, msg reactor.Message) {
	b := msg.Data()
	connect := len(b) >= nvme.CommandSize && b[0] == nvme.Fabrics && b[4] == nvme.FabricsConnect &&
		binary.LittleEndian.Uint16(b[nvme.ConnectQIDAt:]) != 0
	h.Target.OnMessage(c, msg)
	if connect && h.change(holdWrite, holdConnect) {
		// If the queue did not wait, the host would send the write again in this time.
		time.AfterFunc(2*time.Second, func() { close(h.proceed) })
	}
}
