//go:build linux

package hostile

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// A role is the work that a child process does.
type role interface {
	// start starts the work and returns the first note for the parent.
	start(s *Spec) (Note, error)
	report() Note
	// await waits until an attack has finished its rounds. If the role is no attack, await
	// returns at once.
	await()
	// finish ends the work and returns the final counters.
	finish() (Note, error)
}

// IsChild reports whether this process was started by Start. If so, main or TestMain must
// only call Child and exit with its result.
func IsChild() bool { return os.Getenv(RoleEnv) != "" }

// Child runs the role of a child process and returns its exit status. If an order or the
// exit of the parent ended the child, the status is 0.
func Child() int {
	err := runRole(os.Getenv(RoleEnv), os.Stdin, os.Stdout)
	if err != nil {
		fmt.Fprintf(os.Stderr, "hostile: %s: %v\n", os.Getenv(RoleEnv), err)
		return 1
	}
	return 0
}

func runRole(name string, in io.Reader, out io.Writer) error {
	r, err := newRole(name)
	if err != nil {
		return err
	}
	orders, notes := json.NewDecoder(in), json.NewEncoder(out)
	var s Spec
	if err := orders.Decode(&s); err != nil {
		return fmt.Errorf("spec: %w", err)
	}
	if err := limitDescriptors(s.Descriptors); err != nil {
		return err
	}
	note, err := r.start(&s)
	if err := notes.Encode(note.withError(err)); err != nil {
		return err
	}
	return handleOrders(r, orders, notes)
}

// handleOrders handles orders of the parent until the child has finished or its standard
// input ends.
func handleOrders(r role, orders *json.Decoder, notes *json.Encoder) error {
	for {
		var o order
		if err := orders.Decode(&o); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("order: %w", err)
		}
		switch o {
		case orderFinish:
			note, err := r.finish()
			if note.Tally.times != nil {
				note.Tally.P999 = note.Tally.times.p999()
			}
			return notes.Encode(note.withError(err))
		case orderAwait:
			r.await()
		}
		if err := notes.Encode(r.report()); err != nil {
			return err
		}
	}
}

// withError returns a copy of the note with the text of err, which may be nil.
func (n Note) withError(err error) Note {
	if err != nil {
		n.Err = err.Error()
	}
	return n
}

func limitDescriptors(n uint64) error {
	if n == 0 {
		return nil
	}
	return unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: n, Max: n})
}
