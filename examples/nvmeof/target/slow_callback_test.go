package target_test

import (
	"bytes"
	"log/slog"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/examples/nvmeof/target"
	"github.com/rdmaloop/rdmaloop/provider/soft"
	"github.com/rdmaloop/rdmaloop/reactor"
)

// Callbacks that hold up a loop for longer than a second are reported when the loop ends.
// Here every callback is too long.
func TestSlowCallbacksAreReported(t *testing.T) {
	var log bytes.Buffer
	disk := &memoryDisk{bytes: make([]byte, diskSize)}
	tgt, err := target.New(&target.Config{
		Log:        slog.New(slog.NewTextHandler(&log, nil)),
		Subsystems: []*target.Subsystem{{NQN: subsystem, AnyHost: true, Namespaces: []target.Namespace{{Disk: disk, BlockSize: blockSize}}}},
	}, 1)
	require.NoError(t, err)
	cfg := &reactor.Config{NumLoops: 1}
	tgt.Configure(cfg)
	require.Equal(t, time.Second, cfg.Limits.SlowCallback)
	cfg.Limits.SlowCallback = time.Nanosecond
	f := &fixture{T: t}
	engine, err := reactor.New(f.open(soft.PathLocal), tgt, cfg)
	require.NoError(t, err)
	require.NoError(t, engine.Start())
	f.listener, err = engine.Listen(netip.MustParseAddrPort("127.0.0.1:0"), nil)
	require.NoError(t, err)
	f.host = f.newHost(soft.PathLocal, hostNQN, 1)
	require.NoError(t, f.connect(0).Close(t.Context()))
	require.NoError(t, engine.Shutdown(t.Context()))
	require.Regexp(t, `level=WARN msg="slow callbacks" callbacks=[1-9]`, log.String())
}
