// Package limitlog logs failures that peers can cause as often as they like, without filling
// the log.
package limitlog

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// Of records with the same message, burst are logged at once, and then one per interval. A
// record has a few hundred bytes, so that each message fills at most about a megabyte a day.
// Arbitrary.
const (
	burst    = 10
	interval = time.Minute
)

// A Logger passes records to a slog.Logger, but not too many with the same message. The next
// one that it passes says how many are missing. Any goroutine may call its methods.
type Logger struct {
	to *slog.Logger

	mu       sync.Mutex
	messages map[string]*limit
}

// A limit says how many records with one message may be logged.
type limit struct {
	left    int       // number of records that may be logged now
	since   time.Time // time from which the interval until the next record counts
	missing int       // number of records that were not logged since the last one
}

// New returns a Logger that passes records to the given one.
func New(to *slog.Logger) *Logger {
	return &Logger{to: to, messages: make(map[string]*limit)}
}

// Warn logs a warning. The message is a constant of the library, so that there are few. The
// arguments are those of slog.Logger.Warn, and their texts must be bounded.
func (l *Logger) Warn(message string, args ...any) { l.log(slog.LevelWarn, message, args) }

// Error is Warn for an error.
func (l *Logger) Error(message string, args ...any) { l.log(slog.LevelError, message, args) }

func (l *Logger) log(level slog.Level, message string, args []any) {
	missing, ok := l.take(message, time.Now())
	if !ok {
		return
	}
	if missing > 0 {
		args = append(args[:len(args):len(args)], "missing", missing)
	}
	l.to.Log(context.Background(), level, message, args...)
}

// take counts a record, and reports whether it is logged. The result missing is the number of
// records with this message that were not logged before it.
func (l *Logger) take(message string, now time.Time) (missing int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	m := l.messages[message]
	if m == nil {
		m = &limit{left: burst, since: now}
		l.messages[message] = m
	}
	if n := now.Sub(m.since) / interval; n > 0 {
		m.left = min(burst, m.left+int(min(n, burst)))
		m.since = m.since.Add(n * interval)
	}
	if m.left == 0 {
		m.missing++
		return 0, false
	}
	m.left--
	missing, m.missing = m.missing, 0
	return missing, true
}
