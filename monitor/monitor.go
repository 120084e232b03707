// Package monitor offers the counters of a running program to other processes of its user, on
// a Unix socket: the command rdmaloop top shows them. A program that is already scraped by
// Prometheus needs only package metrics.
//
//	server, err := monitor.Listen(engine, nil)
//	...
//	defer server.Close()
//
// Reading the counters does not stop the loops: see reactor.Loop.Stats.
package monitor

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/rdmaloop/rdmaloop/reactor"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// A Snapshot has the counters of a program at one time. It is what a client reads, as JSON.
type Snapshot struct {
	Program string    `json:"program"` // Options.Name, or the name of the executable
	PID     int       `json:"pid"`
	Time    time.Time `json:"time"`
	Loops   []Group   `json:"loops"`
	Devices []Group   `json:"devices"`
}

// A Group has the counters of a loop, those of reactor.Stats.All, or of a port of a device,
// those of verbs.Device.Counters.
type Group struct {
	Name     string            `json:"name"` // of the loop or of the device
	Port     int               `json:"port,omitempty"`
	Conns    int               `json:"conns,omitempty"`
	Counters map[string]uint64 `json:"counters"` // by name, in the units of verbs.Counter
}

// Options has the options of Listen. Nil means the zero value.
type Options struct {
	// Name is the name of the program. Empty means the name of the executable. It must not
	// have a slash.
	Name string
	// Dir is the directory of the socket. It is made if it does not exist. It must belong to
	// the user of the process, and nobody else may have rights to it. No other host may use it.
	// Empty means the result of Dir.
	Dir string
}

// Dir returns the directory of the sockets of this user: rdmaloop in $XDG_RUNTIME_DIR, or
// rdmaloop- and the number of the user in the directory for temporary files.
func Dir() string {
	if dir := os.Getenv("XDG_RUNTIME_DIR"); dir != "" {
		return filepath.Join(dir, "rdmaloop")
	}
	return filepath.Join(os.TempDir(), "rdmaloop-"+strconv.Itoa(os.Getuid()))
}

const (
	// timeout is how long a client may take to read a snapshot. Arbitrary.
	timeout = 5 * time.Second
	// maxClients is how many clients are served at once; the next ones wait. Arbitrary.
	maxClients = 4
)

// A Server answers clients until Close. Any goroutine may call its methods.
type Server struct {
	name     string
	engine   *reactor.Engine
	listener *net.UnixListener
	clients  chan struct{} // has an element for each client that is served
	served   sync.WaitGroup
}

// Listen makes the socket and begins to answer clients. A client must be a process of the
// same user or of root (SO_PEERCRED, unix(7)); others can not even connect, because of the
// rights of the directory. Listen removes the sockets in the directory that programs of this
// user left behind when they were killed.
//
// The caller closes the Server before the provider, as the counters of devices are read. The
// errors are those of package os and of package net, and a *verbs.FeatureError on systems
// other than Linux.
func Listen(engine *reactor.Engine, o *Options) (*Server, error) {
	if o == nil {
		o = &Options{}
	}
	s, err := listen(engine, *o)
	if err != nil {
		return nil, fmt.Errorf("monitor: %w", err)
	}
	return s, nil
}

func listen(engine *reactor.Engine, o Options) (*Server, error) {
	if err := supported(); err != nil {
		return nil, err
	}
	if o.Name == "" {
		o.Name = filepath.Base(os.Args[0])
	}
	if strings.ContainsRune(o.Name, filepath.Separator) {
		return nil, &verbs.ParamError{Field: "name", NotNumber: true, Reason: "has a slash"}
	}
	if o.Dir == "" {
		o.Dir = Dir()
	}
	if err := os.MkdirAll(o.Dir, 0o700); err != nil { // such as in an image without /tmp
		return nil, fmt.Errorf("no directory for the socket: %w: set Options.Dir or XDG_RUNTIME_DIR to one that this user can make", err)
	}
	if err := checkDir(o.Dir); err != nil {
		return nil, err
	}
	addr := &net.UnixAddr{Name: filepath.Join(o.Dir, o.Name+"."+strconv.Itoa(os.Getpid())+".sock"), Net: "unix"}
	// A process that was killed may have left the socket behind, with the same number.
	if err := os.Remove(addr.Name); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	removeDead(o.Dir)
	ln, err := net.ListenUnix("unix", addr)
	if err != nil {
		return nil, err
	}
	s := &Server{name: o.Name, engine: engine, listener: ln, clients: make(chan struct{}, maxClients)}
	s.served.Add(1)
	go s.accept()
	return s, nil
}

// checkDir returns an error if another user has rights to the directory, who could then
// replace the socket.
func checkDir(name string) error {
	info, err := os.Lstat(name)
	switch {
	case err != nil:
		return err
	case !info.IsDir() || info.Mode().Perm()&0o077 != 0 || !ownedByThisUser(info):
		return fmt.Errorf("%s must be a directory of this user with mode 0700, and is %v: remove it or set Options.Dir", name, info.Mode())
	}
	return nil
}

// minDeadAge is the age from which a socket on which nobody listens belongs to a program that
// was killed. A younger one may be between bind and listen.
const minDeadAge = 5 * time.Second

// removeDead removes the sockets of this user's programs that were killed, from a directory
// that checkDir has checked. One that can not be removed stays.
func removeDead(dir string) {
	names, _ := Sockets(dir)
	for _, name := range names {
		info, err := os.Lstat(name)
		if err != nil || info.Mode().Type() != os.ModeSocket || !ownedByThisUser(info) || time.Since(info.ModTime()) < minDeadAge {
			continue
		}
		c, err := net.DialTimeout("unix", name, timeout)
		if err == nil {
			c.Close()
		} else if errors.Is(err, syscall.ECONNREFUSED) {
			_ = os.Remove(name)
		}
	}
}

// Addr returns the name of the socket.
func (s *Server) Addr() string { return s.listener.Addr().String() }

// Close ends the Server, waits for clients that are being answered, at most some seconds, and
// removes the socket. Further calls do nothing.
func (s *Server) Close() error {
	err := s.listener.Close()
	s.served.Wait()
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// accept serves clients until the listener is closed.
func (s *Server) accept() {
	defer s.served.Done()
	for {
		s.clients <- struct{}{}
		c, err := s.listener.AcceptUnix()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // such as no more descriptors
			<-s.clients
			time.Sleep(100 * time.Millisecond)
			continue
		}
		s.served.Add(1)
		go func() {
			defer func() { c.Close(); <-s.clients; s.served.Done() }()
			s.answer(c)
		}()
	}
}

// answer writes a snapshot. A client that reads nothing is left after the timeout.
func (s *Server) answer(c *net.UnixConn) {
	if !allowed(c) || c.SetDeadline(time.Now().Add(timeout)) != nil {
		return
	}
	snapshot := Take(s.engine)
	snapshot.Program = s.name
	_ = json.NewEncoder(c).Encode(snapshot) // An error means that the client has gone away.
}

// Take returns the counters that an engine and the devices of its provider have now. A port of
// a device whose counters can not be read is left out. Any goroutine may call Take.
func Take(engine *reactor.Engine) *Snapshot {
	out := &Snapshot{Program: filepath.Base(os.Args[0]), PID: os.Getpid(), Time: time.Now()}
	for i := range engine.NumLoops() {
		l := engine.Loop(i)
		g := Group{Name: l.Name(), Conns: l.Conns(), Counters: make(map[string]uint64)}
		for c := range l.Stats().All() {
			g.Counters[c.Name] = c.Value
		}
		out.Loops = append(out.Loops, g)
	}
	devices, _ := engine.Provider().Devices() // There are none after the provider was closed.
	for _, d := range devices {
		for port := 1; port <= d.Attr().NumPorts; port++ {
			list, err := d.Counters(uint8(port))
			if err != nil {
				continue
			}
			g := Group{Name: d.Name(), Port: port, Counters: make(map[string]uint64)}
			for _, c := range list {
				g.Counters[c.Name] = c.Value
			}
			out.Devices = append(out.Devices, g)
		}
	}
	return out
}

// Sockets returns the names of the sockets in a directory, in the order of the names. Some may
// belong to programs that were killed.
func Sockets(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil // No program has listened.
	}
	var list []string
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".sock") {
			list = append(list, filepath.Join(dir, e.Name()))
		}
	}
	slices.Sort(list)
	return list, err
}

// maxSnapshot is the largest snapshot that Read accepts, in bytes: a thousand loops have less.
const maxSnapshot = 64 << 20

// Read reads a snapshot from the socket with a name. The errors are those of package net, such
// as syscall.ECONNREFUSED if the program has ended, and one for a text that is no snapshot.
func Read(socket string) (*Snapshot, error) {
	conn, err := net.DialTimeout("unix", socket, timeout)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(timeout)); err != nil {
		return nil, err
	}
	var s Snapshot
	if err := json.NewDecoder(io.LimitReader(conn, maxSnapshot)).Decode(&s); err != nil {
		return nil, fmt.Errorf("%s: the program has sent no snapshot: %w", socket, err)
	}
	return &s, nil
}
