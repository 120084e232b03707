package server

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"

	"go.etcd.io/bbolt"

	"github.com/rdmaloop/rdmaloop/reactor"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// A Store is a bbolt database whose file is mapped for peers. The Store has a mapping of
// its own, because bbolt unmaps bbolt's mapping when the file grows. Any goroutine may
// call the methods.
type Store struct {
	DB     *bbolt.DB
	file   *os.File // the file that DB uses
	engine *reactor.Engine

	mu      sync.Mutex
	current *mapping // newest mapping; nil before the first transaction
	maps    int      // number of mappings that are not closed
	refused error    // error with which a device has refused a read-only mapping, or nil
}

// A mapping is a mapping of the file as it was at some time. The file may be longer now.
type mapping struct {
	region *reactor.Region
	users  int // number of transactions that use the mapping
}

// Open opens the database in a file, and creates it if it does not exist. It sets
// Options.OpenFile.
func Open(name string, options bbolt.Options) (*Store, error) {
	s := new(Store)
	options.OpenFile = func(name string, flag int, mode os.FileMode) (file *os.File, err error) {
		s.file, err = os.OpenFile(name, flag, mode)
		return s.file, err
	}
	db, err := bbolt.Open(name, 0o600, &options)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", name, err)
	}
	s.DB = db
	return s, nil
}

// A Tx is a read transaction of the store, with a mapping that has all its pages.
type Tx struct {
	*bbolt.Tx
	store   *Store
	mapping *mapping
}

// Begin begins a read transaction. It waits while bbolt maps the file anew, so a loop
// must not call it.
func (s *Store) Begin() (*Tx, error) {
	tx, err := s.DB.Begin(false)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	m, err := s.mappingFor(tx.Size())
	if err != nil {
		return nil, errors.Join(err, tx.Rollback())
	}
	m.users++
	return &Tx{Tx: tx, store: s, mapping: m}, nil
}

// End ends the transaction. From now on, bbolt may write to pages that only this
// version of the store has. The peer must have no READ in flight. End may wait for a
// lock, so it must not be called on a loop.
func (t *Tx) End() {
	_ = t.Rollback() // Rollback fails only if the transaction has ended already.
	t.store.mu.Lock()
	defer t.store.mu.Unlock()
	t.mapping.users--
	t.store.closeUnused(t.mapping)
}

// mappingFor returns a mapping with at least size bytes of the file. If the newest one
// is too short, the file has grown, and mappingFor maps it again. The caller holds the
// mutex.
func (s *Store) mappingFor(size int64) (*mapping, error) {
	if s.current != nil && size <= int64(len(s.current.region.Bytes())) {
		return s.current, nil
	}
	info, err := s.file.Stat()
	if err != nil {
		return nil, err
	}
	if info.Size() < size {
		return nil, fmt.Errorf("the file has %d bytes, and the store needs %d", info.Size(), size)
	}
	region, err := s.mapFile(int(info.Size()))
	if err != nil {
		return nil, err
	}
	old := s.current
	s.current = &mapping{region: region}
	s.maps++
	if old != nil {
		s.closeUnused(old)
	}
	return s.current, nil
}

// mapFile maps the first bytes of the file. Peers may only read it.
//
// Linux before 6.2 refuses to register a shared mapping with a device if the mapping can
// not be written (EFAULT). Then the file is mapped for writing, which changes nothing for
// peers. The caller holds the mutex.
func (s *Store) mapFile(length int) (*reactor.Region, error) {
	access := verbs.AccessRemoteRead
	if s.refused != nil {
		access |= verbs.AccessLocalWrite
	}
	region, err := s.engine.MapFile(int(s.file.Fd()), 0, length, access)
	if errors.Is(err, syscall.EFAULT) && s.refused == nil {
		s.refused = err
		return s.mapFile(length)
	}
	return region, err
}

// Refused returns why a device has refused a mapping of the file that can not be written,
// or nil.
func (s *Store) Refused() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.refused
}

// closeUnused closes a mapping that is not the newest one, after its last transaction.
// The caller holds the mutex.
func (s *Store) closeUnused(m *mapping) {
	if m.users == 0 && m != s.current {
		s.maps--
		m.region.CloseFunc(nil)
	}
}
