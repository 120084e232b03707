//go:build linux

package hostile

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// patience is how long a child may take for an answer. It ends a hang, and is no
// measure of anything: nine test runs may share two processors.
const patience = 2 * time.Minute

// A Process is a child, seen from its parent. Its methods belong to one goroutine at
// a time.
type Process struct {
	Role  Role
	cmd   *exec.Cmd
	stdin io.WriteCloser
	notes *json.Decoder
	ended bool
}

// Start starts this program again in a role, and waits until it has begun. uid is
// the user that the child belongs to; a negative number leaves the user as it is.
// The first note of the child has, for a server, its address. When the child could
// not begin, the error says why, and there is no Process.
func Start(r Role, uid int, s *Spec) (*Process, Note, error) {
	p := &Process{Role: r, cmd: exec.Command("/proc/self/exe")}
	p.cmd.Env = append(os.Environ(), RoleEnv+"="+string(r))
	p.cmd.Stderr = os.Stderr
	// The interrupt from the keyboard goes to the process group of the parent only.
	// PR_SET_PDEATHSIG goes by the end of the thread that forked, see prctl(2). A
	// thread of the Go runtime ends only with a goroutine that is locked to it.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	if uid >= 0 {
		p.cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}
		p.cmd.Dir = "/" // the directory of a test may be closed to other users
	}
	stdin, err := p.cmd.StdinPipe()
	if err != nil {
		return nil, Note{}, err
	}
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, Note{}, err
	}
	p.stdin = stdin
	if err := p.cmd.Start(); err != nil {
		return nil, Note{}, err
	}
	p.notes = json.NewDecoder(stdout)
	note, err := p.ask(s)
	if err != nil {
		p.Kill()
		return nil, note, err
	}
	return p, note, nil
}

// PID is the process ID.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Report asks the child what it has counted up to now.
func (p *Process) Report() (Note, error) { return p.ask(orderReport) }

// Await waits until an attacker has carried out all its rounds.
func (p *Process) Await() (Note, error) { return p.ask(orderAwait) }

// Finish has the child end in order, and waits until it has. A client first waits
// for the echoes that are on their way.
func (p *Process) Finish() (Note, error) {
	if p.ended {
		return Note{}, os.ErrProcessDone
	}
	note, err := p.ask(orderFinish)
	if err != nil {
		p.Kill()
		return note, err
	}
	p.ended = true
	p.stdin.Close()
	if err := p.cmd.Wait(); err != nil {
		return note, fmt.Errorf("%s: %w", p.Role, err)
	}
	return note, nil
}

// Kill ends the child with SIGKILL, and waits until it is gone. It does nothing when
// the child has ended.
func (p *Process) Kill() {
	if p.ended {
		return
	}
	p.ended = true
	// The process may have ended by itself.
	_ = p.cmd.Process.Kill()
	p.stdin.Close()
	_ = p.cmd.Wait()
}

// Stop stops the child with SIGSTOP, and Continue lets it go on.
func (p *Process) Stop() error { return p.cmd.Process.Signal(syscall.SIGSTOP) }

// Continue undoes Stop.
func (p *Process) Continue() error { return p.cmd.Process.Signal(syscall.SIGCONT) }

// ask sends something to the child, and returns its answer. A child that does not
// answer in time is killed.
func (p *Process) ask(what any) (note Note, err error) {
	overdue := time.AfterFunc(patience, func() { _ = p.cmd.Process.Kill() })
	err = json.NewEncoder(p.stdin).Encode(what)
	if err == nil {
		err = p.notes.Decode(&note)
	}
	switch {
	case !overdue.Stop():
		err = fmt.Errorf("%s: no answer within %v", p.Role, patience)
	case err != nil:
		err = fmt.Errorf("%s: the process has ended: %w", p.Role, err)
	case note.Err != "":
		err = fmt.Errorf("%s: %w", p.Role, errors.New(note.Err))
	}
	return note, err
}
