package reactor

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/verbs"
)

func TestConfigDefaults(t *testing.T) {
	c, err := (*Config)(nil).withDefaults()
	require.NoError(t, err)
	require.Equal(t, 1, c.NumLoops)
	require.Equal(t, IdleAdaptive, c.Idle)
	require.Equal(t, 50*time.Microsecond, c.SpinBudget)
	require.Equal(t, 63, c.MaxInFlight)
	require.Equal(t, 8192, c.MaxConns)
	require.Equal(t, 16, c.SignalEvery)
	require.Equal(t, 640*time.Microsecond, c.MinRNRTimer)
	require.EqualValues(t, 12, c.rnrTimerCode())
	require.Equal(t, 30*time.Second, c.ConnectTimeout, "the kernel repeats a lost request within 30 s after an outage of 5 s")
	require.Equal(t, 7, c.RetryCount)
	require.Equal(t, 16, c.InitiatorDepth)
	require.Equal(t, 30*time.Second, c.Keepalive)

	given := &Config{MaxInFlight: 2, Keepalive: -1, MaxConns: -1, RetryCount: -1, MinRNRTimer: 500 * time.Millisecond, InitiatorDepth: -1, MaxInline: -1}
	before := *given
	c, err = given.withDefaults()
	require.NoError(t, err)
	require.Equal(t, before.MaxInFlight, given.MaxInFlight, "the caller's Config is not modified")
	require.Equal(t, 1, c.SignalEvery)
	require.Zero(t, c.RetryCount)
	require.Zero(t, c.rnrTimerCode(), "code 0, the longest delay")
	require.Zero(t, c.Keepalive)
	require.Equal(t, maxConns, c.MaxConns)
	require.Zero(t, c.InitiatorDepth)
	require.Zero(t, c.MaxInline)
}

func TestConfigChecks(t *testing.T) {
	for field, c := range map[string]*Config{
		"NumLoops":           {NumLoops: -1},
		"Idle":               {Idle: 3},
		"SpinBudget":         {SpinBudget: -1},
		"SafetyTimeout":      {SafetyTimeout: -1},
		"EpollEvery":         {EpollEvery: -1},
		"CompletionBudget":   {CompletionBudget: -1},
		"MaxPosted":          {MaxPosted: -1},
		"SlowCallback":       {SlowCallback: -1},
		"MaxInFlight":        {MaxInFlight: maxQueue + 1},
		"MaxMessage":         {MaxMessage: -1},
		"MaxInline":          {MaxInline: 1 << 20},
		"MaxConns":           {MaxConns: maxConns + 1},
		"SharedRecvBuffers":  {SharedRecvBuffers: -2},
		"MinRecvBuffers":     {MinRecvBuffers: -1},
		"SignalEvery":        {SignalEvery: -1},
		"RetryCount":         {RetryCount: 8},
		"RNRRetryCount":      {RNRRetryCount: 8},
		"MinRNRTimer":        {MinRNRTimer: maxRNRDelay + 1},
		"AckTimeout":         {AckTimeout: maxAckTimeout + 1},
		"ResponderResources": {ResponderResources: 256},
		"InitiatorDepth":     {InitiatorDepth: 256},
		"Backlog":            {Backlog: -1},
		"DecisionTimeout":    {DecisionTimeout: -1},
		"ConnectTimeout":     {ConnectTimeout: -1},
		"DrainTimeout":       {DrainTimeout: -1},
		"Keepalive":          {Keepalive: maxKeepalive + 1},
		"Balance":            {Balance: 2},
		"CPUs":               {CPUs: []int{-1}},
	} {
		_, err := c.withDefaults()
		var param *verbs.ParamError
		require.ErrorAs(t, err, &param, field)
		require.Equal(t, field, param.Field)
	}
}

// TestConfigTimeError checks that the error for an invalid time names the field, the
// value and the limit.
func TestConfigTimeError(t *testing.T) {
	_, err := (&Config{MinRNRTimer: time.Second}).withDefaults()
	require.EqualError(t, err, "rdma: configure reactor: MinRNRTimer 1s: the limit is 655.36ms")
	_, err = (&Config{AckTimeout: -time.Second}).withDefaults()
	require.EqualError(t, err, "rdma: configure reactor: AckTimeout -1s: the minimum is 0s")
}

// TestPeerTimeout checks what follows from Config.PeerTimeout, and that what is set stays.
func TestPeerTimeout(t *testing.T) {
	type follows struct {
		ack       time.Duration
		retries   int
		keepalive time.Duration
	}
	for _, test := range []struct {
		given Config
		want  follows
	}{
		{Config{}, follows{0, 7, 30 * time.Second}},
		{Config{PeerTimeout: time.Millisecond}, follows{262144, 3, 500 * time.Microsecond}},
		{Config{PeerTimeout: 50 * time.Millisecond}, follows{8388608, 5, 25 * time.Millisecond}},
		{Config{PeerTimeout: time.Minute}, follows{8589934592, 6, 30 * time.Second}},
		{Config{PeerTimeout: maxPeerTimeout}, follows{maxAckTimeout / 4, 3, 30 * time.Second}},
		{Config{PeerTimeout: time.Second, RetryCount: -1}, follows{1073741824, 0, 500 * time.Millisecond}},
		{Config{PeerTimeout: time.Second, RetryCount: 7}, follows{134217728, 7, 500 * time.Millisecond}},
		{Config{PeerTimeout: time.Second, AckTimeout: 100 * time.Millisecond}, follows{134217728, 7, 500 * time.Millisecond}},
		{Config{PeerTimeout: time.Second, AckTimeout: 3 * time.Second}, follows{4294967296, 0, 500 * time.Millisecond}},
		{Config{PeerTimeout: time.Second, Keepalive: -1}, follows{268435456, 3, 0}},
		{Config{PeerTimeout: time.Second, Keepalive: time.Hour}, follows{268435456, 3, time.Hour}},
	} {
		c, err := test.given.withDefaults()
		require.NoError(t, err)
		ack := verbs.AckTimeout(c.ackTimeoutCode(0, uint8(c.RetryCount)))
		require.Equal(t, test.want, follows{ack, c.RetryCount, c.Keepalive}, "%+v", test.given)
	}
	for timeout := minPeerTimeout; timeout < maxPeerTimeout; timeout += timeout / 10 {
		c, err := (&Config{PeerTimeout: timeout}).withDefaults()
		require.NoError(t, err)
		all := verbs.AckTimeout(c.ackTimeoutCode(0, uint8(c.RetryCount))) * time.Duration(c.RetryCount+1)
		require.GreaterOrEqual(t, all, timeout)
		require.LessOrEqual(t, all, timeout*13/10, "%v", timeout)
	}
	c := &Config{PeerTimeout: time.Second}
	require.Zero(t, c.answerTime(), "without Keepalive there are no probes")
	require.EqualValues(t, 20, c.ackTimeoutCode(4*time.Second, 7), "the option of a connection comes first")
}
