package reactor_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/reactor"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// constant returns a PrivateDataFor with a constant result.
func constant(data []byte, err error) func(*reactor.Conn) ([]byte, error) {
	return func(*reactor.Conn) ([]byte, error) { return data, err }
}

// describeRegion returns a PrivateDataFor whose result is the address and the key of a
// new Region. The function checks what it may do with the connection before the
// connection is open.
func describeRegion(t *testing.T) func(*reactor.Conn) ([]byte, error) {
	return func(c *reactor.Conn) ([]byte, error) {
		require.Equal(t, reactor.StateConnecting, c.State())
		require.Positive(t, c.Info().MaxInFlight)
		require.NotZero(t, c.Info().QPNum)
		require.ErrorIs(t, c.Send(nil, nil), reactor.ErrClosed)
		c.UserData = "set by the function"
		region, err := c.Loop().Engine().Alloc(64, verbs.AccessLocalWrite|verbs.AccessRemoteWrite)
		require.NoError(t, err)
		at, err := region.Remote(c.Info().Device, 0, 64)
		require.NoError(t, err)
		return at.AppendBinary(nil)
	}
}

// TestPrivateDataFor checks that both sides can make their private data when the queue
// pair exists, and that the data replaces PrivateData.
func TestPrivateDataFor(t *testing.T) {
	var dialed, accepted *reactor.Conn
	server := newLoop(t, &hooks{
		request: func(req *reactor.ConnRequest) {
			require.NoError(t, req.Accept(&reactor.AcceptOptions{PrivateData: []byte("unused"), PrivateDataFor: describeRegion(t)}))
		},
		open: func(c *reactor.Conn) { accepted = c },
	}, nil)
	client := newLoop(t, &hooks{open: func(c *reactor.Conn) { dialed = c }}, nil)
	require.NoError(t, client.Engine().Dial(listen(t, server.Engine()), &reactor.DialOptions{PrivateData: []byte("unused"), PrivateDataFor: describeRegion(t)}))
	drive(t, func() bool { return dialed != nil && accepted != nil }, client, server)
	for _, c := range []*reactor.Conn{dialed, accepted} {
		require.Equal(t, "set by the function", c.UserData)
		var remote reactor.Remote
		require.NoError(t, remote.UnmarshalBinary(c.Info().PeerPrivateData))
		require.NoError(t, c.WriteBytes(remote, []byte("data"), nil))
	}
	drive(t, func() bool { return dialed.Stats().Confirmed == 1 && accepted.Stats().Confirmed == 1 }, client, server)
}

// TestPrivateDataForFails checks that an error of the function, or private data that is
// too long, ends the attempt with one callback on each side.
func TestPrivateDataForFails(t *testing.T) {
	errTest := errors.New("no private data")
	tooLong := func(room int) func(*reactor.Conn) ([]byte, error) { return constant(make([]byte, room+1), nil) }
	isTest := func(err error) bool { return errors.Is(err, errTest) }
	isParam := func(err error) bool {
		var param *verbs.ParamError
		return errors.As(err, &param) && param.Field == "private data"
	}
	for name, test := range map[string]struct {
		dial, accept func(*reactor.Conn) ([]byte, error)
		is           func(error) bool
	}{
		"dial":            {dial: constant(nil, errTest), is: isTest},
		"accept":          {accept: constant(nil, errTest), is: isTest},
		"dial too long":   {dial: tooLong(cm.MaxPrivateData(cm.TCP, cm.MessageConnect)), is: isParam},
		"accept too long": {accept: tooLong(cm.MaxPrivateData(cm.TCP, cm.MessageAccept)), is: isParam},
		"both fail":       {dial: constant(nil, errTest), accept: constant(nil, errors.New("not called")), is: isTest},
	} {
		t.Run(name, func(t *testing.T) {
			var dialErrors, acceptErrors []error
			server := newLoop(t, &hooks{
				request: func(req *reactor.ConnRequest) {
					require.Nil(t, req.UserData())
					require.NoError(t, req.Accept(&reactor.AcceptOptions{PrivateDataFor: test.accept, UserData: name}))
				},
				acceptError: func(req *reactor.ConnRequest, err error) {
					require.Equal(t, name, req.UserData())
					acceptErrors = append(acceptErrors, err)
				},
			}, nil)
			client := newLoop(t, &hooks{dialError: func(_ *reactor.DialOptions, err error) { dialErrors = append(dialErrors, err) }}, nil)
			require.NoError(t, client.Engine().Dial(listen(t, server.Engine()), &reactor.DialOptions{PrivateDataFor: test.dial}))
			drive(t, func() bool { return len(dialErrors) > 0 && client.Conns()+server.Conns() == 0 }, client, server)
			require.Len(t, dialErrors, 1)
			if test.dial != nil {
				require.True(t, test.is(dialErrors[0]), dialErrors[0])
				require.Empty(t, acceptErrors)
				return
			}
			require.Len(t, acceptErrors, 1)
			require.True(t, test.is(acceptErrors[0]), acceptErrors[0])
			var reject *cm.RejectError
			require.ErrorAs(t, dialErrors[0], &reject)
		})
	}
}
