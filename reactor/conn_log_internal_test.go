package reactor

import (
	"context"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"
)

// An unwilling handler wants no record, and counts how often it is asked.
type unwilling struct{ asked, records int }

func (u *unwilling) Enabled(_ context.Context, level slog.Level) bool {
	u.asked++
	return level > slog.LevelDebug
}

func (u *unwilling) Handle(context.Context, slog.Record) error { u.records++; return nil }

func (u *unwilling) WithAttrs([]slog.Attr) slog.Handler { return u }

func (u *unwilling) WithGroup(string) slog.Handler { return u }

// TestNoRecordCostsNothing checks that an event of which no record is wanted asks the logger
// once, and allocates nothing.
func TestNoRecordCostsNothing(t *testing.T) {
	h := &unwilling{}
	e := &Engine{cfg: &Config{Logger: slog.New(h)}}
	l := &Loop{engine: e, name: "loop 0"}
	c, req := &Conn{loop: l}, &ConnRequest{engine: e}
	for name, event := range map[string]func(){
		"request":  func() { l.logRequest(req) },
		"accepted": func() { l.logAccepted(req) },
		"rejected": func() { req.logRejected(saysShutdown) },
		"dial":     c.logDial,
		"failed":   func() { c.logFailed(ErrShutdown) },
		"open":     c.logOpen,
		"pause":    func() { c.logPause("receiving paused") },
		"closing":  c.logClosing,
		"closed":   func() { c.logClosed(ErrIdle) },
	} {
		h.asked = 0
		event()
		require.Equal(t, 1, h.asked, name)
		require.Zero(t, testing.AllocsPerRun(100, event), name)
	}
	require.Zero(t, h.records)
}
