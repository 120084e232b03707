package server_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/examples/kvread/client"
	"github.com/rdmaloop/rdmaloop/examples/kvread/server"
	"github.com/rdmaloop/rdmaloop/internal/testutil/freeport"
	"github.com/rdmaloop/rdmaloop/internal/testutil/leak"
	"github.com/rdmaloop/rdmaloop/provider/soft"
	"github.com/rdmaloop/rdmaloop/reactor"
)

func TestMain(m *testing.M) { leak.Main(m) }

var bucket = []byte("bucket")

// A fixture is a running server of a store.
type fixture struct {
	*testing.T
	store  *server.Store
	server *server.Server
	addr   netip.AddrPort
	path   soft.Path
	port   uint16     // UDP port of the wire path
	next   netip.Addr // local address of the next client on the wire path
}

// start starts a server on one path of the soft device.
func start(t *testing.T, path soft.Path, limit time.Duration) *fixture {
	return startWith(t, path, limit, bbolt.Options{NoSync: true})
}

func startWith(t *testing.T, path soft.Path, limit time.Duration, options bbolt.Options) *fixture {
	f := &fixture{T: t, path: path, port: freeport.UDP(t), next: netip.MustParseAddr("127.77.1.2")}
	var err error
	f.store, err = server.Open(filepath.Join(t.TempDir(), "store"), options)
	require.NoError(t, err)
	addr := netip.MustParseAddr("127.77.1.1")
	f.server, err = server.New(f.open(), f.store, limit)
	require.NoError(t, err)
	f.addr, err = f.server.Listen(netip.AddrPortFrom(addr, 0))
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, f.server.Close(context.Background()))
		require.NoError(t, f.store.DB.Close())
	})
	return f
}

// open opens a soft provider, for the server or for a client.
func (f *fixture) open() cm.Provider {
	p, err := soft.Open(&soft.Config{Path: f.path, WirePort: f.port})
	require.NoError(f, err)
	f.Cleanup(func() { require.NoError(f, p.Close()) })
	return p
}

// dial connects a client. On the wire path each device needs an address of its own.
func (f *fixture) dial() *client.Client {
	cfg := &client.Config{Idle: reactor.IdleEvent}
	if f.path == soft.PathWire {
		cfg.From = netip.AddrPortFrom(f.next, 0)
		f.next = f.next.Next()
	}
	c, err := client.Dial(f.open(), f.addr, cfg)
	require.NoError(f, err)
	f.Cleanup(func() { require.NoError(f, c.Close()) })
	return c
}

// put stores the value of several keys in one transaction.
func (f *fixture) put(value []byte, keys ...string) error {
	return f.store.DB.Update(func(tx *bbolt.Tx) error {
		b, err := tx.CreateBucketIfNotExists(bucket)
		for _, key := range keys {
			err = errors.Join(err, b.Put([]byte(key), value))
		}
		return err
	})
}

// paths runs a test on both paths of the soft device.
func paths(t *testing.T, test func(t *testing.T, path soft.Path)) {
	for _, path := range []soft.Path{soft.PathLocal, soft.PathWire} {
		t.Run(path.String(), func(t *testing.T) { test(t, path) })
	}
}

// TestVersions checks that a transaction keeps its version of the store, and that READs
// and messages find the same values.
func TestVersions(t *testing.T) {
	paths(t, func(t *testing.T, path soft.Path) {
		// The mapping is long enough from the start. Otherwise bbolt would have to map the file
		// again, and would wait for the end of the first transaction.
		f := startWith(t, path, 0, bbolt.Options{NoSync: true, InitialMmapSize: 1 << 20})
		require.NoError(t, f.put([]byte("old"), "key"))
		c, later := f.dial(), f.dial()
		require.NoError(t, c.Begin())
		require.NoError(t, f.put([]byte("new"), "key", "another"))
		require.NoError(t, later.Begin())
		for _, test := range []struct {
			client     *client.Client
			key, value string
		}{{c, "key", "old"}, {c, "another", ""}, {later, "key", "new"}, {later, "another", "new"}, {later, "missing", ""}} {
			byRead, err := test.client.Get(bucket, []byte(test.key))
			require.NoError(t, err)
			require.Equal(t, test.value, string(byRead))
			byMessage, err := test.client.GetByMessage(bucket, []byte(test.key))
			require.NoError(t, err)
			require.Equal(t, test.value, string(byMessage))
		}
		require.NoError(t, c.End())
		require.NoError(t, c.Begin())
		value, err := c.Get(bucket, []byte("key"))
		require.NoError(t, err)
		require.Equal(t, "new", string(value))
	})
}

// TestGrowth checks that clients see whole transactions only, while a writer changes all
// keys again and again, and makes the file grow until it was mapped several times.
func TestGrowth(t *testing.T) {
	paths(t, func(t *testing.T, path soft.Path) {
		f := start(t, path, 0)
		var keys []string
		for i := range 200 {
			keys = append(keys, fmt.Sprintf("key%d", i))
		}
		require.NoError(t, f.put(make([]byte, 100), keys...))
		stop, stopped := make(chan struct{}), make(chan error)
		go func() { stopped <- f.write(keys, stop) }()
		c := f.dial()
		newest, sizes := uint64(0), map[int64]bool{}
		for len(sizes) < 6 {
			require.NoError(t, c.Begin())
			first := f.version(c, keys[0])
			for _, key := range keys {
				require.Equal(t, first, f.version(c, key), "keys of different transactions")
			}
			require.GreaterOrEqual(t, first, newest)
			newest = first
			require.NoError(t, c.End())
			sizes[f.store.Mapped()] = true
		}
		close(stop)
		require.NoError(t, <-stopped)
		require.Eventually(t, func() bool { return f.store.Mappings() == 1 }, time.Minute, time.Millisecond)
	})
}

// version returns the number of the transaction that has written the key.
func (f *fixture) version(c *client.Client, key string) uint64 {
	value, err := c.Get(bucket, []byte(key))
	require.NoError(f, err)
	require.Len(f, value, 100)
	for i := 8; i+8 <= len(value); i += 8 {
		require.Equal(f, value[:8], value[i:i+8], "the value is torn")
	}
	return binary.BigEndian.Uint64(value)
}

// write gives all keys a new value and adds other keys, until stop is closed.
func (f *fixture) write(keys []string, stop chan struct{}) error {
	for version := uint64(1); ; version++ {
		select {
		case <-stop:
			return nil
		default:
		}
		var value []byte
		for len(value) < 96 {
			value = binary.BigEndian.AppendUint64(value, version)
		}
		value = append(value, 0, 0, 0, 0)
		err := f.put(value, append(keys[:len(keys):len(keys)], fmt.Sprint("more", version))...)
		if err == nil && version%4 == 0 {
			err = f.put(make([]byte, 20000), fmt.Sprint("long", version))
		}
		if err != nil {
			return err
		}
	}
}

// TestLimit checks that a client that holds its transaction for too long is disconnected,
// and that the store can use the pages again.
func TestLimit(t *testing.T) {
	paths(t, func(t *testing.T, path soft.Path) {
		f := start(t, path, 50*time.Millisecond)
		// bbolt stores a small bucket in the page that has the bucket's name. The client reads
		// this page only once in a transaction.
		require.NoError(t, f.put(make([]byte, 2000), "key"))
		c := f.dial()
		require.NoError(t, c.Begin())
		for {
			value, err := c.Get(bucket, []byte("key"))
			if err != nil {
				require.ErrorIs(t, err, reactor.ErrPeerClosed)
				break
			}
			require.Len(t, value, 2000)
		}
		require.Error(t, c.Begin())
		require.Eventually(t, func() bool { return f.store.DB.Stats().OpenTxN == 0 }, time.Minute, time.Millisecond)
		// The store can map its file again only while no transaction is open.
		require.NoError(t, f.put(make([]byte, 1<<20), "long"))
		c = f.dial()
		require.NoError(t, c.Begin())
	})
}

// TestClientGone checks that the transaction of a client that has disconnected ends.
func TestClientGone(t *testing.T) {
	paths(t, func(t *testing.T, path soft.Path) {
		f := start(t, path, time.Hour)
		require.NoError(t, f.put([]byte("1"), "key"))
		c := f.dial()
		require.NoError(t, c.Begin())
		require.Equal(t, 1, f.store.DB.Stats().OpenTxN)
		require.NoError(t, c.Close())
		require.Eventually(t, func() bool { return f.store.DB.Stats().OpenTxN == 0 }, time.Minute, time.Millisecond)
	})
}

// TestAllocations checks that a GET by READs allocates no memory.
func TestAllocations(t *testing.T) {
	f := start(t, soft.PathLocal, 0)
	require.NoError(t, f.put(make([]byte, 2000), "key", "key2"))
	c := f.dial()
	require.NoError(t, c.Begin())
	key := []byte("key")
	require.Less(t, testing.AllocsPerRun(1000, func() {
		if value, err := c.Get(bucket, key); err != nil || len(value) != 2000 {
			t.Errorf("%q %v", value, err)
		}
	}), 1.0)
}

// TestSequence checks what a Client refuses.
func TestSequence(t *testing.T) {
	f := start(t, soft.PathLocal, 0)
	require.NoError(t, f.put([]byte("1"), "key"))
	c := f.dial()
	_, err := c.Get(bucket, nil)
	require.ErrorIs(t, err, client.ErrTransaction)
	require.ErrorIs(t, c.End(), client.ErrTransaction)
	require.NoError(t, c.Begin())
	require.ErrorIs(t, c.Begin(), client.ErrTransaction)
	_, err = c.GetByMessage([]byte("missing"), nil)
	require.ErrorIs(t, err, client.ErrServer)
}
