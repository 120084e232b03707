package client_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/examples/kvread/client"
	"github.com/rdmaloop/rdmaloop/examples/kvread/message"
	"github.com/rdmaloop/rdmaloop/internal/testutil/leak"
	"github.com/rdmaloop/rdmaloop/provider/soft"
	"github.com/rdmaloop/rdmaloop/reactor"
	"github.com/rdmaloop/rdmaloop/verbs"
)

func TestMain(m *testing.M) { leak.Main(m) }

// A hostile is a server whose answers can be arbitrary bytes.
type hostile struct {
	reactor.BaseHandler
	// answer makes the answer to a request. It is called on the loop.
	answer func(c *reactor.Conn, request []byte) []byte
}

// OnMessage sends an answer, or closes the connection if there is none.
func (h *hostile) OnMessage(c *reactor.Conn, msg reactor.Message) {
	if b := h.answer(c, msg.Data()); b == nil {
		_ = c.Abort(nil)
	} else {
		_ = c.Send(b, nil)
	}
}

// startHostile starts a server, and returns its engine, its address and a device for
// clients.
func startHostile(t *testing.T, h *hostile) (*reactor.Engine, netip.AddrPort, cm.Provider) {
	open := func() cm.Provider {
		p, err := soft.Open(&soft.Config{Path: soft.PathLocal})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, p.Close()) })
		return p
	}
	engine, err := reactor.New(open(), h, &reactor.Config{MaxMessage: message.MaxSize, Idle: reactor.IdleEvent})
	require.NoError(t, err)
	require.NoError(t, engine.Start())
	l, err := engine.Listen(netip.MustParseAddrPort("127.0.0.1:0"), nil)
	require.NoError(t, err)
	device := open()
	t.Cleanup(func() { require.NoError(t, engine.Shutdown(context.Background())) })
	return engine, l.Addr(), device
}

func dial(t *testing.T, device cm.Provider, addr netip.AddrPort, timeout time.Duration) *client.Client {
	c, err := client.Dial(device, addr, &client.Config{Timeout: timeout, Idle: reactor.IdleEvent})
	require.NoError(t, err)
	return c
}

// storeFile returns the bytes of a database with a bucket b, and the root page.
func storeFile(t *testing.T) (file []byte, root uint64) {
	name := filepath.Join(t.TempDir(), "store")
	db, err := bbolt.Open(name, 0o600, &bbolt.Options{NoSync: true})
	require.NoError(t, err)
	require.NoError(t, db.Update(func(tx *bbolt.Tx) error {
		b, err := tx.CreateBucket([]byte("b"))
		require.NoError(t, err)
		for i := range 1000 {
			require.NoError(t, b.Put(fmt.Appendf(nil, "key%04d", i), make([]byte, i)))
		}
		return nil
	}))
	require.NoError(t, db.View(func(tx *bbolt.Tx) error {
		root = uint64(tx.Cursor().Bucket().Root())
		return nil
	}))
	require.NoError(t, db.Close())
	file, err = os.ReadFile(name)
	require.NoError(t, err)
	return file, root
}

// TestHostileFile checks that the client gets a value or an error for each key, while one
// byte of the file is wrong.
func TestHostileFile(t *testing.T) {
	file, root := storeFile(t)
	h := &hostile{}
	engine, addr, device := startHostile(t, h)
	region, err := engine.Alloc(len(file), verbs.AccessRemoteRead)
	require.NoError(t, err)
	file = region.Bytes()[:copy(region.Bytes(), file)]
	pageSize := os.Getpagesize()
	h.answer = func(c *reactor.Conn, _ []byte) []byte {
		all, err := region.Remote(c.Info().Device, 0, len(file))
		require.NoError(t, err)
		s := message.Snapshot{PageSize: uint32(pageSize), Root: root, Pages: uint64(len(file) / pageSize), File: all}
		b, _ := s.AppendBinary([]byte{message.Found})
		return b
	}
	random := rand.New(rand.NewPCG(1, 2))
	values, failures := 0, 0
	c := dial(t, device, addr, time.Minute)
	for range 2000 {
		require.NoError(t, c.Begin())
		at := random.IntN(len(file)/pageSize)*pageSize + random.IntN(64)
		old := file[at]
		file[at] = byte(random.Uint32())
		if _, err = c.Get([]byte("b"), fmt.Appendf(nil, "key%04d", random.IntN(1000))); err != nil {
			failures++
		} else {
			values++
		}
		file[at] = old
		require.NoError(t, c.End())
	}
	require.NotZero(t, values)
	require.NotZero(t, failures)
	require.NoError(t, c.Close())
}

// TestHostileAnswers checks that wrong answers are errors.
func TestHostileAnswers(t *testing.T) {
	snapshot := func(s message.Snapshot) []byte {
		b, _ := s.AppendBinary([]byte{message.Found})
		return b
	}
	const large = 1 << 63
	answers := map[string][]byte{
		"nothing":      {},
		"no status":    {0},
		"status":       {9, 1, 2},
		"failed":       {message.Failed, 'x'},
		"not found":    {message.NotFound},
		"short":        {message.Found, 1, 2, 3},
		"zeros":        snapshot(message.Snapshot{}),
		"page size":    snapshot(message.Snapshot{PageSize: 1 << 30, Root: 2, Pages: 10}),
		"root":         snapshot(message.Snapshot{PageSize: 4096, Root: 10, Pages: 10}),
		"key":          snapshot(message.Snapshot{PageSize: 4096, Root: 2, Pages: 10}),
		"huge":         snapshot(message.Snapshot{PageSize: 4096, Root: large - 1, Pages: large}),
		"disconnected": nil,
	}
	for name, answer := range answers {
		t.Run(name, func(t *testing.T) {
			h := &hostile{answer: func(*reactor.Conn, []byte) []byte { return answer }}
			_, addr, device := startHostile(t, h)
			c := dial(t, device, addr, time.Minute)
			err := c.Begin()
			if err == nil {
				_, err = c.Get([]byte("b"), []byte("key"))
			}
			require.Error(t, err)
			require.NoError(t, c.Close())
		})
	}
}

// TestTimeout checks that a server that does not answer costs no more than the timeout.
func TestTimeout(t *testing.T) {
	released := make(chan struct{})
	h := &hostile{answer: func(*reactor.Conn, []byte) []byte {
		<-released
		return nil
	}}
	_, addr, device := startHostile(t, h)
	c := dial(t, device, addr, time.Millisecond)
	require.ErrorIs(t, c.Begin(), reactor.ErrTimeout)
	require.Error(t, c.Begin())
	close(released)
	require.NoError(t, c.Close())
}
