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
	require.Equal(t, []LoopConfig{{Name: "loop 0", CPU: -1, SpinBudget: 50 * time.Microsecond}}, c.loops)
	require.Equal(t, 63, c.MaxInFlight)
	require.Equal(t, 8192, c.MaxConns)
	require.Equal(t, 16, c.Transport.SignalEvery)
	require.Equal(t, 640*time.Microsecond, c.Transport.MinRNRTimer)
	require.EqualValues(t, 12, c.rnrTimerCode())
	require.Equal(t, 30*time.Second, c.Limits.ConnectTimeout, "the kernel repeats a lost request within 30 s after an outage of 5 s")
	require.Equal(t, 7, c.Transport.RetryCount)
	require.Equal(t, 16, c.Transport.InitiatorDepth)
	require.Equal(t, 30*time.Second, c.Transport.Keepalive)

	given := &Config{MaxInFlight: 2, Transport: Transport{Keepalive: -1, RetryCount: -1, MinRNRTimer: 500 * time.Millisecond, InitiatorDepth: -1, MaxInline: -1}, MaxConns: -1}
	before := *given
	c, err = given.withDefaults()
	require.NoError(t, err)
	require.Equal(t, before.MaxInFlight, given.MaxInFlight, "the caller's Config is not modified")
	require.Equal(t, 1, c.Transport.SignalEvery)
	require.Zero(t, c.Transport.RetryCount)
	require.Zero(t, c.rnrTimerCode(), "code 0, the longest delay")
	require.Zero(t, c.Transport.Keepalive)
	require.Equal(t, maxConns, c.MaxConns)
	require.Zero(t, c.Transport.InitiatorDepth)
	require.Zero(t, c.Transport.MaxInline)
}

func TestConfigChecks(t *testing.T) {
	for field, c := range map[string]*Config{
		"NumLoops":           {NumLoops: -1},
		"Idle":               {Idle: 3},
		"SpinBudget":         {SpinBudget: -1},
		"SafetyTimeout":      {Limits: Limits{SafetyTimeout: -1}},
		"EpollEvery":         {Limits: Limits{EpollEvery: -1}},
		"CompletionBudget":   {Limits: Limits{CompletionBudget: -1}},
		"MaxPosted":          {Limits: Limits{MaxPosted: -1}},
		"SlowCallback":       {Limits: Limits{SlowCallback: -1}},
		"LatencyEvery":       {LatencyEvery: -1},
		"MaxInFlight":        {MaxInFlight: maxQueue + 1},
		"MaxMessage":         {MaxMessage: -1},
		"MaxInline":          {Transport: Transport{MaxInline: 1 << 20}},
		"MaxConns":           {MaxConns: maxConns + 1},
		"SharedRecvBuffers":  {Memory: Memory{SharedRecvBuffers: -2}},
		"MinRecvBuffers":     {Memory: Memory{MinRecvBuffers: -1}},
		"SignalEvery":        {Transport: Transport{SignalEvery: -1}},
		"RetryCount":         {Transport: Transport{RetryCount: 8}},
		"RNRRetryCount":      {Transport: Transport{RNRRetryCount: 8}},
		"MinRNRTimer":        {Transport: Transport{MinRNRTimer: maxRNRDelay + 1}},
		"AckTimeout":         {Transport: Transport{AckTimeout: maxAckTimeout + 1}},
		"ResponderResources": {Transport: Transport{ResponderResources: 256}},
		"InitiatorDepth":     {Transport: Transport{InitiatorDepth: 256}},
		"Backlog":            {Limits: Limits{Backlog: -1}},
		"DecisionTimeout":    {Limits: Limits{DecisionTimeout: -1}},
		"ConnectTimeout":     {Limits: Limits{ConnectTimeout: -1}},
		"DrainTimeout":       {Limits: Limits{DrainTimeout: -1}},
		"Keepalive":          {Transport: Transport{Keepalive: maxKeepalive + 1}},
		"CPUs":               {CPUs: []int{-2}},
	} {
		_, err := c.withDefaults()
		var param *verbs.ParamError
		require.ErrorAs(t, err, &param, field)
		require.Equal(t, field, param.Field)
	}
}

// TestEachLoopErrors checks that what EachLoop sets is checked.
func TestEachLoopErrors(t *testing.T) {
	for field, change := range map[string]func(*LoopConfig){
		"CPU":        func(l *LoopConfig) { l.CPU = maxCPU + 1 },
		"Idle":       func(l *LoopConfig) { l.Idle = IdleBusy + 1 },
		"SpinBudget": func(l *LoopConfig) { l.SpinBudget = -1 },
	} {
		_, err := (&Config{EachLoop: func(_ int, l *LoopConfig) { change(l) }}).withDefaults()
		var param *verbs.ParamError
		require.ErrorAs(t, err, &param)
		require.Equal(t, field, param.Field)
	}
	_, err := (&Config{NumLoops: 2, EachLoop: func(_ int, l *LoopConfig) { l.CPU, l.Idle = 3, IdleBusy }}).withDefaults()
	require.ErrorContains(t, err, "can not share a processor")
}

// TestEachLoopZero checks that zero values mean the defaults after EachLoop, too.
func TestEachLoopZero(t *testing.T) {
	c, err := (&Config{SpinBudget: time.Second, EachLoop: func(_ int, l *LoopConfig) { l.Name, l.SpinBudget = "", 0 }}).withDefaults()
	require.NoError(t, err)
	require.Equal(t, []LoopConfig{{Name: "loop 0", CPU: -1, SpinBudget: defaultSpinBudget}}, c.loops)
}

// TestConfigTimeError checks that the error for an invalid time names the field, the
// value and the limit.
func TestConfigTimeError(t *testing.T) {
	_, err := (&Config{Transport: Transport{MinRNRTimer: time.Second}}).withDefaults()
	require.EqualError(t, err, "rdma: configure reactor: MinRNRTimer 1s: the limit is 655.36ms")
	_, err = (&Config{Transport: Transport{AckTimeout: -time.Second}}).withDefaults()
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
		{Config{PeerTimeout: time.Second, Transport: Transport{RetryCount: -1}}, follows{1073741824, 0, 500 * time.Millisecond}},
		{Config{PeerTimeout: time.Second, Transport: Transport{RetryCount: 7}}, follows{134217728, 7, 500 * time.Millisecond}},
		{Config{PeerTimeout: time.Second, Transport: Transport{AckTimeout: 100 * time.Millisecond}}, follows{134217728, 7, 500 * time.Millisecond}},
		{Config{PeerTimeout: time.Second, Transport: Transport{AckTimeout: 3 * time.Second}}, follows{4294967296, 0, 500 * time.Millisecond}},
		{Config{PeerTimeout: time.Second, Transport: Transport{Keepalive: -1}}, follows{268435456, 3, 0}},
		{Config{PeerTimeout: time.Second, Transport: Transport{Keepalive: time.Hour}}, follows{268435456, 3, time.Hour}},
	} {
		c, err := test.given.withDefaults()
		require.NoError(t, err)
		ack := verbs.AckTimeout(c.ackTimeoutCode(0, uint8(c.Transport.RetryCount)))
		require.Equal(t, test.want, follows{ack, c.Transport.RetryCount, c.Transport.Keepalive}, "%+v", test.given)
	}
	for timeout := minPeerTimeout; timeout < maxPeerTimeout; timeout += timeout / 10 {
		c, err := (&Config{PeerTimeout: timeout}).withDefaults()
		require.NoError(t, err)
		all := verbs.AckTimeout(c.ackTimeoutCode(0, uint8(c.Transport.RetryCount))) * time.Duration(c.Transport.RetryCount+1)
		require.GreaterOrEqual(t, all, timeout)
		require.LessOrEqual(t, all, timeout*13/10, "%v", timeout)
	}
	c := &Config{PeerTimeout: time.Second}
	require.Zero(t, c.answerTime(), "without Keepalive there are no probes")
	require.EqualValues(t, 20, c.ackTimeoutCode(4*time.Second, 7), "the option of a connection comes first")
}
