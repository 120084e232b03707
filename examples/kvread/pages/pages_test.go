package pages_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"

	"github.com/rdmaloop/rdmaloop/examples/kvread/pages"
)

// A fileSource has the bytes of a file. It counts the calls of ReadPages.
type fileSource struct {
	file     []byte
	pageSize int
	calls    int
}

func (s *fileSource) MaxPages() int { return 64 }

func (s *fileSource) ReadPages(id uint64, count int) ([]byte, error) {
	s.calls++
	at := int(id) * s.pageSize
	if count > s.MaxPages() || at > len(s.file) || count*s.pageSize > len(s.file)-at {
		return nil, fmt.Errorf("%d pages at page %d are outside the file", count, id)
	}
	return s.file[at : at+count*s.pageSize], nil
}

// snapshot returns a Snapshot of the whole file.
func (s *fileSource) snapshot(root uint64) (*pages.Snapshot, error) {
	return pages.NewSnapshot(s, s.pageSize, root, uint64(len(s.file)/s.pageSize))
}

// A store is a closed database with its contents.
type store struct {
	fileSource
	root   uint64
	values map[string]map[string]string // values by the names of the bucket and the key
}

// newStore makes a database with the given contents, in several transactions, and deletes
// some keys again.
func newStore(tb testing.TB, values map[string]map[string]string) *store {
	name := filepath.Join(tb.TempDir(), "store")
	db, err := bbolt.Open(name, 0o600, &bbolt.Options{NoSync: true})
	require.NoError(tb, err)
	for bucket, keys := range values {
		for round := range 2 {
			require.NoError(tb, db.Update(func(tx *bbolt.Tx) error {
				b, err := tx.CreateBucketIfNotExists([]byte(bucket))
				require.NoError(tb, err)
				for key, value := range keys {
					if round == 0 {
						require.NoError(tb, b.Put([]byte(key+"deleted"), []byte(value)))
						continue
					}
					require.NoError(tb, b.Delete([]byte(key+"deleted")))
					require.NoError(tb, b.Put([]byte(key), []byte(value)))
				}
				return nil
			}))
		}
	}
	s := &store{values: values}
	require.NoError(tb, db.View(func(tx *bbolt.Tx) error {
		s.root, s.pageSize = uint64(tx.Cursor().Bucket().Root()), db.Info().PageSize
		return nil
	}))
	require.NoError(tb, db.Close())
	s.file, err = os.ReadFile(name)
	require.NoError(tb, err)
	return s
}

// contents returns the keys and values of each test bucket. One bucket is empty, one is
// small, one has pages on several levels, one has values that are longer than a page, and
// many have only one key.
func contents() map[string]map[string]string {
	random := rand.New(rand.NewPCG(1, 2))
	all := map[string]map[string]string{"empty": {}, "small": {"a": "1", "b": ""}, "large": {}, "long": {}}
	for i := range 5000 {
		all["large"][fmt.Sprintf("%x", random.Uint64())] = fmt.Sprint(i)
	}
	for i := range 100 {
		all["long"][fmt.Sprint(i)] = string(bytes.Repeat([]byte{byte(i)}, random.IntN(50000)))
	}
	for i := range 500 {
		all[fmt.Sprint("bucket", i)] = map[string]string{"key": fmt.Sprint(i)}
	}
	return all
}

// TestGet checks that all values of a database are found, and nothing else.
func TestGet(t *testing.T) {
	s := newStore(t, contents())
	snapshot, err := s.snapshot(s.root)
	require.NoError(t, err)
	for bucket, keys := range s.values {
		for key, value := range keys {
			got, err := snapshot.Get([]byte(bucket), []byte(key))
			require.NoError(t, err)
			require.NotNil(t, got)
			require.Equal(t, value, string(got))
			got, err = snapshot.Get([]byte(bucket), []byte(key+"deleted"))
			require.NoError(t, err)
			require.Nil(t, got)
		}
		got, err := snapshot.Get([]byte(bucket), nil)
		require.NoError(t, err)
		require.Nil(t, got)
	}
	_, err = snapshot.Get([]byte("missing"), []byte("key"))
	require.ErrorIs(t, err, pages.ErrNoBucket)
}

// TestReads checks that a search reads one page when the branch pages were read before.
func TestReads(t *testing.T) {
	s := newStore(t, contents())
	snapshot, err := s.snapshot(s.root)
	require.NoError(t, err)
	get := func(key string) {
		_, err := snapshot.Get([]byte("large"), []byte(key))
		require.NoError(t, err)
	}
	for key := range s.values["large"] {
		get(key)
	}
	s.calls = 0
	for key := range s.values["large"] {
		get(key)
	}
	require.Equal(t, len(s.values["large"]), s.calls)
	require.Zero(t, testing.AllocsPerRun(100, func() { get("0123") }))
}

// TestTooLong checks that the length of a page is limited.
func TestTooLong(t *testing.T) {
	s := newStore(t, map[string]map[string]string{"b": {"key": string(make([]byte, 1<<20))}})
	snapshot, err := s.snapshot(s.root)
	require.NoError(t, err)
	_, err = snapshot.Get([]byte("b"), []byte("key"))
	require.ErrorIs(t, err, pages.ErrTooLong)
}

// TestInvalid checks that each kind of damage is found. Each function changes the page
// that has the key, a leaf with many elements.
func TestInvalid(t *testing.T) {
	s := newStore(t, map[string]map[string]string{"b": contents()["large"]})
	key := []byte("8")
	find := func(file []byte) (leaf uint64, err error) {
		source := &lastPage{fileSource: fileSource{file: file, pageSize: s.pageSize}}
		snapshot, err := pages.NewSnapshot(source, s.pageSize, s.root, uint64(len(file)/s.pageSize))
		require.NoError(t, err)
		_, err = snapshot.Get([]byte("b"), key)
		return source.id, err
	}
	leaf, err := find(s.file)
	require.NoError(t, err)
	order := binary.NativeEndian
	for name, damage := range map[string]func(page []byte){
		"number":           func(page []byte) { page[0]++ },
		"flags":            func(page []byte) { page[8] |= 1 },
		"other byte order": func(page []byte) { page[8], page[9] = page[9], page[8] },
		"branch":           func(page []byte) { page[8] = 1 },
		"meta":             func(page []byte) { page[8] = 4 },
		"count":            func(page []byte) { order.PutUint16(page[10:], 0xFFFF) },
		"overflow":         func(page []byte) { order.PutUint32(page[12:], 0xFFFFFFFF) },
		"position":         func(page []byte) { order.PutUint32(page[20:], 0xFFFFFFFF) },
		"into elements":    func(page []byte) { order.PutUint32(page[20:], 0) },
		"key size":         func(page []byte) { order.PutUint32(page[24:], 0xFFFFFFFF) },
		"empty key":        func(page []byte) { order.PutUint32(page[24:], 0) },
		"value size":       func(page []byte) { order.PutUint32(page[28:], 0xFFFFFFFF) },
		"order":            func(page []byte) { copy(page[16:32], page[32:48]) },
		"keys of another page": func(page []byte) {
			number := bytes.Clone(page[:8])
			copy(page, s.file[int(leaf-1)*s.pageSize:][:s.pageSize])
			copy(page, number)
		},
		"zeros": func(page []byte) { clear(page) },
	} {
		t.Run(name, func(t *testing.T) {
			file := bytes.Clone(s.file)
			damage(file[int(leaf)*s.pageSize:][:s.pageSize])
			_, err := find(file)
			require.ErrorIs(t, err, pages.ErrInvalid)
		})
	}
}

// A lastPage is a fileSource that remembers the last page that was read.
type lastPage struct {
	fileSource
	id uint64
}

func (s *lastPage) ReadPages(id uint64, count int) ([]byte, error) {
	s.id = id
	return s.fileSource.ReadPages(id, count)
}

// FuzzGet checks that no file makes Get panic or read for ever.
func FuzzGet(f *testing.F) {
	const pageSize = 1024
	s := newStore(f, map[string]map[string]string{"b": {"key": "value", "key2": "2"}, "c": {}})
	f.Add(s.file[:min(len(s.file), 8*pageSize)], uint64(3), "b", "key")
	// Two files are added. In the first one, the branch page 2 refers to itself. In the
	// second one, it refers to the leaf page 3.
	branch := make([]byte, 4*pageSize)
	page := branch[2*pageSize:]
	page[0], page[8], page[10] = 2, 1, 1
	binary.NativeEndian.PutUint32(page[16:], 16)
	binary.NativeEndian.PutUint32(page[20:], 1)
	binary.NativeEndian.PutUint64(page[24:], 2)
	page[32] = 'b'
	f.Add(bytes.Clone(branch), uint64(2), "b", "key")
	page[24], branch[3*pageSize], branch[3*pageSize+8] = 3, 3, 2
	f.Add(branch, uint64(2), "b", "key")
	f.Fuzz(func(t *testing.T, file []byte, root uint64, bucket, key string) {
		source := &fileSource{file: file, pageSize: pageSize}
		snapshot, err := source.snapshot(root)
		if err != nil {
			return
		}
		for range 2 {
			source.calls = 0
			value, err := snapshot.Get([]byte(bucket), []byte(key))
			require.LessOrEqual(t, source.calls, 4*32)
			if err == nil && value != nil {
				require.True(t, bytes.Contains(file, value))
			}
		}
	})
}
