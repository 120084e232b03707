package limitlog_test

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/internal/limitlog"
)

// A recorder is a slog.Handler that keeps the records.
type recorder struct {
	mu      sync.Mutex
	records []slog.Record
}

func (r *recorder) Enabled(context.Context, slog.Level) bool { return true }

func (r *recorder) Handle(_ context.Context, record slog.Record) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.records = append(r.records, record)
	return nil
}

func (r *recorder) WithAttrs([]slog.Attr) slog.Handler { return r }

func (r *recorder) WithGroup(string) slog.Handler { return r }

// missing returns the sum of the attributes "missing" of the records with this message, and
// the number of these records.
func (r *recorder) missing(message string) (sum, records int) {
	for _, record := range r.records {
		if record.Message != message {
			continue
		}
		records++
		record.Attrs(func(a slog.Attr) bool {
			if a.Key == "missing" {
				sum += int(a.Value.Int64())
			}
			return true
		})
	}
	return sum, records
}

// TestFlood checks how many records a flood of an hour causes, that the missing ones are
// counted, and that it does not hide other messages.
func TestFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{}
		l := limitlog.New(slog.New(r))
		const flood, rare, perSecond = "flood", "rare", 100
		for second := range 3600 {
			for range perSecond {
				l.Warn(flood, "n", second)
			}
			if second%600 == 0 {
				l.Error(rare)
			}
			time.Sleep(time.Second)
		}
		l.Warn(flood)
		missing, records := r.missing(flood)
		require.Equal(t, 10+60, records)
		require.Equal(t, 3600*perSecond+1, records+missing)
		missing, records = r.missing(rare)
		require.Zero(t, missing)
		require.Equal(t, 6, records)
		require.Equal(t, slog.LevelWarn, r.records[0].Level)
	})
}

// TestPauseAllowsABurst checks that after a long pause some records are logged at once again,
// but not more than at first.
func TestPauseAllowsABurst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{}
		l := limitlog.New(slog.New(r))
		for range 2 {
			for range 100 {
				l.Warn("message")
			}
			time.Sleep(1000 * time.Hour)
		}
		_, records := r.missing("message")
		require.Equal(t, 20, records)
	})
}
