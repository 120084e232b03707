//go:build cgo && linux

package rdmacore_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/provider/rdmacore"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// Each error wraps the errno, and the error of this module with the same meaning.
func TestErrnoMeanings(t *testing.T) {
	for _, c := range []struct {
		make  func(op string, code int32) error
		errno unix.Errno
		want  error
	}{
		{rdmacore.VerbsError, unix.EBUSY, verbs.ErrBusy},
		{rdmacore.VerbsError, unix.EOPNOTSUPP, verbs.ErrNotSupported},
		{rdmacore.VerbsError, unix.ENOSYS, verbs.ErrNotSupported},
		{rdmacore.VerbsError, unix.EINVAL, unix.EINVAL},
		{rdmacore.PostError, unix.ENOMEM, verbs.ErrQueueFull},
		{rdmacore.PostError, unix.EAGAIN, verbs.ErrQueueFull},
		{rdmacore.CMError, unix.EADDRINUSE, cm.ErrAddrInUse},
		{rdmacore.CMError, unix.EADDRNOTAVAIL, cm.ErrAddrNotAvailable},
		{rdmacore.CMError, unix.ENODEV, cm.ErrNoRoute},
		{rdmacore.CMError, unix.ENETUNREACH, cm.ErrNoRoute},
		{rdmacore.CMError, unix.EHOSTUNREACH, cm.ErrNoRoute},
		{rdmacore.CMError, unix.ETIMEDOUT, cm.ErrTimedOut},
		{rdmacore.CMError, unix.EISCONN, verbs.ErrState},
	} {
		for _, code := range []int32{int32(c.errno), -int32(c.errno)} {
			err := c.make("do it", code)
			require.ErrorIs(t, err, c.want)
			require.ErrorIs(t, err, c.errno)
			var op *verbs.OpError
			require.ErrorAs(t, err, &op)
			require.Equal(t, "do it", op.Op)
		}
		require.NoError(t, c.make("do it", 0))
	}
	require.NotErrorIs(t, rdmacore.VerbsError("alloc", int32(unix.ENOMEM)), verbs.ErrQueueFull)
}

func TestCreateErrorWithoutErrno(t *testing.T) {
	require.ErrorIs(t, rdmacore.CreateError("make", unix.ENOMEM), unix.ENOMEM)
	for _, none := range []error{nil, errors.New("odd")} {
		require.ErrorContains(t, rdmacore.CreateError("make", none), "without a reason")
	}
}

// The error of a registration that needs too much locked memory names the size and the
// limit.
func TestMemoryErrorNamesTheLimit(t *testing.T) {
	var limit unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_MEMLOCK, &limit))
	defer func() { require.NoError(t, unix.Setrlimit(unix.RLIMIT_MEMLOCK, &limit)) }()
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_MEMLOCK, &unix.Rlimit{Cur: 4096, Max: limit.Max}))
	err := rdmacore.MemoryError("register MR", 1<<20, unix.ENOMEM)
	require.ErrorIs(t, err, unix.ENOMEM)
	require.EqualError(t, err, "rdma: register MR: cannot allocate memory: 1048576 bytes; the process may lock 4096 bytes in all (RLIMIT_MEMLOCK, ulimit -l)")
	require.NotContains(t, rdmacore.MemoryError("register MR", 1<<20, unix.EINVAL).Error(), "MEMLOCK")
}
