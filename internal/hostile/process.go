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

// A child must answer within this time. It is long, because nine test runs may share two
// processors. Arbitrary.
const answerLimit = 2 * time.Minute

// A Process is a child process. Only one goroutine at a time may call its methods.
type Process struct {
	Role  Role
	cmd   *exec.Cmd
	stdin io.WriteCloser
	notes *json.Decoder
	ended bool
}

// Start starts this program again as a child with the role r, and waits until the child
// works. The child runs as the user uid. If uid is negative, it runs as the parent's
// user. The Note of a server has its address.
func Start(r Role, uid int, s *Spec) (*Process, Note, error) {
	p := &Process{Role: r, cmd: exec.Command("/proc/self/exe")}
	p.cmd.Env = append(os.Environ(), RoleEnv+"="+string(r))
	p.cmd.Stderr = os.Stderr
	// In its own process group, the child does not get the signal of Ctrl-C. Pdeathsig
	// kills the child when the thread that started it exits (prctl(2)). Normally that is
	// when this process exits.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	if uid >= 0 {
		p.cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}
		// The user may have no access to the test's directory.
		p.cmd.Dir = "/"
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

// PID returns the process ID.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Report returns the counters of the child.
func (p *Process) Report() (Note, error) { return p.ask(orderReport) }

// Await waits until an attacker has finished its rounds and returns its counters.
func (p *Process) Await() (Note, error) { return p.ask(orderAwait) }

// Finish tells the child to finish, waits until it has exited, and returns the final
// counters. A client first waits for its outstanding echoes.
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

// Kill kills the child with SIGKILL and waits until it has exited. A second Kill does
// nothing.
func (p *Process) Kill() {
	if p.ended {
		return
	}
	p.ended = true
	// Process.Kill fails if the process has already exited.
	_ = p.cmd.Process.Kill()
	p.stdin.Close()
	_ = p.cmd.Wait()
}

// Stop stops the child with SIGSTOP, until Continue is called.
func (p *Process) Stop() error { return p.cmd.Process.Signal(syscall.SIGSTOP) }

// Continue continues a stopped child with SIGCONT.
func (p *Process) Continue() error { return p.cmd.Process.Signal(syscall.SIGCONT) }

// ask sends the spec or an order and returns the child's answer. A child that does not
// answer in time is killed.
func (p *Process) ask(what any) (note Note, err error) {
	overdue := time.AfterFunc(answerLimit, func() { _ = p.cmd.Process.Kill() })
	err = json.NewEncoder(p.stdin).Encode(what)
	if err == nil {
		err = p.notes.Decode(&note)
	}
	switch {
	case !overdue.Stop():
		err = fmt.Errorf("%s: no answer within %v", p.Role, answerLimit)
	case err != nil:
		err = fmt.Errorf("%s: the process has ended: %w", p.Role, err)
	case note.Err != "":
		err = fmt.Errorf("%s: %w", p.Role, errors.New(note.Err))
	}
	return note, err
}
