package rdmaloop_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The files of each package have a reading order. The file doc.go of a package may list
// the files in this order. Without such a list, the order is alphabetical. A reference
// runs against the order if it leads from a file to a declaration in a later file.

// maxAgainst is the largest allowed percentage of a package's references between files
// that run against the reading order. The value is arbitrary.
const maxAgainst = 10

// ordered has the packages that must obey the limit maxAgainst. A final /* means all
// packages below that directory.
var ordered = []string{"cm", "cq", "poller", "provider/soft", "provider/soft/internal/*", "reactor", "verbs"}

func TestFileOrder(t *testing.T) {
	packages := loadPackages(t)
	for _, path := range slices.Sorted(maps.Keys(packages)) {
		name, _ := strings.CutPrefix(path, module+"/")
		if !slices.ContainsFunc(ordered, func(pattern string) bool { return fits(pattern, name) }) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			order := packages[path].order(t)
			count := countRefs(packages[path].refs(t), order)
			t.Logf("%.1f %% of %d references run against the order of the files", count.percent(), count.total)
			require.LessOrEqual(t, count.percent(), float64(maxAgainst), "the most frequent ones:\n%s", count.worst(10))
		})
	}
}

// A listedPackage is the description of one package in the output of go list.
type listedPackage struct {
	ImportPath string
	Dir        string
	GoFiles    []string
	// Export is the path of the compiled package, a file from which the type checker reads
	// the types of the package.
	Export string

	// exports has the field Export of each package that go list printed, by import path.
	exports map[string]string
}

// loadPackages returns reactor, provider/soft, the packages below provider/soft, and all
// packages that these import. The key of the map is the import path.
func loadPackages(t *testing.T) map[string]*listedPackage {
	args := []string{"list", "-export", "-deps", "-json=ImportPath,Dir,GoFiles,Export", "./reactor", "./provider/soft/..."}
	out, err := exec.Command("go", args...).Output()
	require.NoError(t, err)
	packages, exports := make(map[string]*listedPackage), make(map[string]string)
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		p := &listedPackage{exports: exports}
		err := decoder.Decode(p)
		if err == io.EOF {
			return packages
		}
		require.NoError(t, err)
		packages[p.ImportPath], exports[p.ImportPath] = p, p.Export
	}
}

// order returns the position of each file in the reading order, beginning with 1. If
// doc.go lists the files, doc.go itself is not in the map, so its position is 0.
func (p *listedPackage) order(t *testing.T) map[string]int {
	files := p.GoFiles
	text, err := os.ReadFile(filepath.Join(p.Dir, "doc.go"))
	if listed := readingOrder(string(text)); err == nil && listed != nil {
		files = listed
		names, err := filepath.Glob(filepath.Join(p.Dir, "*.go"))
		require.NoError(t, err)
		require.Empty(t, compareFiles(listed, names))
	}
	positions := make(map[string]int)
	for i, name := range files {
		positions[name] = i + 1
	}
	return positions
}

// readingOrder returns the names of the files that the text of a doc.go lists in reading
// order. It returns nil if the text has no such list.
func readingOrder(text string) (files []string) {
	const heading = "// The files of this package, in reading order:"
	_, list, found := strings.Cut(text, heading)
	if !found {
		return nil
	}
	for line := range strings.Lines(list) {
		if words := strings.Fields(strings.TrimPrefix(line, "//")); len(words) > 0 && strings.HasSuffix(words[0], ".go") {
			files = append(files, words[0])
		}
	}
	return files
}

// compareFiles compares the files that doc.go lists with the files of the package, and
// describes each difference. Tests and doc.go itself must not be in the list.
func compareFiles(listed, names []string) (problems []string) {
	present := make(map[string]bool)
	for _, name := range names {
		if base := filepath.Base(name); base != "doc.go" && !strings.HasSuffix(base, "_test.go") {
			present[base] = true
		}
	}
	for _, name := range listed {
		if !present[name] {
			problems = append(problems, fmt.Sprintf("doc.go lists %s twice, or there is no such file", name))
		}
		delete(present, name)
	}
	for name := range present {
		problems = append(problems, fmt.Sprintf("doc.go does not list %s", name))
	}
	return problems
}

// A fileRef is a reference from one file of a package to another.
type fileRef struct{ from, to, name string }

// refs returns the references between the files of the package. A reference is the use of
// a package-level name, or of a method, that another file declares. A call through an
// interface is a reference to the file that declares the interface.
func (p *listedPackage) refs(t *testing.T) (all []fileRef) {
	fset := token.NewFileSet()
	var files []*ast.File
	for _, name := range p.GoFiles {
		file, err := parser.ParseFile(fset, filepath.Join(p.Dir, name), nil, 0)
		require.NoError(t, err)
		files = append(files, file)
	}
	info := &types.Info{Uses: make(map[*ast.Ident]types.Object)}
	lookup := func(path string) (io.ReadCloser, error) { return os.Open(p.exports[path]) }
	config := types.Config{Importer: importer.ForCompiler(fset, "gc", lookup)}
	pkg, err := config.Check(p.ImportPath, fset, files, info)
	require.NoError(t, err)
	file := func(pos token.Pos) string { return filepath.Base(fset.Position(pos).Filename) }
	for ident, object := range info.Uses {
		method, isFunc := object.(*types.Func)
		isMethod := isFunc && method.Signature().Recv() != nil
		if object.Pkg() != pkg || object.Parent() != pkg.Scope() && !isMethod {
			continue
		}
		if from, to := file(ident.Pos()), file(object.Pos()); from != to {
			all = append(all, fileRef{from, to, object.Name()})
		}
	}
	return all
}

// A refCount counts the references between the files of a package. The field total counts
// all references. The field against counts how often each reference against the reading
// order occurs.
type refCount struct {
	total   int
	against map[fileRef]int
}

func countRefs(refs []fileRef, order map[string]int) refCount {
	count := refCount{total: len(refs), against: make(map[fileRef]int)}
	for _, r := range refs {
		if order[r.to] > order[r.from] {
			count.against[r]++
		}
	}
	return count
}

func (c refCount) percent() float64 {
	n := 0
	for _, times := range c.against {
		n += times
	}
	return 100 * float64(n) / float64(max(1, c.total))
}

// worst describes the n most frequent references against the reading order.
func (c refCount) worst(n int) string {
	refs := slices.SortedFunc(maps.Keys(c.against), func(a, b fileRef) int { return c.against[b] - c.against[a] })
	var b strings.Builder
	for _, r := range refs[:min(n, len(refs))] {
		fmt.Fprintf(&b, "%s uses %s of %s (%d)\n", r.from, r.name, r.to, c.against[r])
	}
	return b.String()
}

func TestReadingOrder(t *testing.T) {
	const text = "package x\n\n// The files of this package, in reading order:\n//\n//\ta.go  first, before b.go\n//\tb_linux.go\n"
	require.Nil(t, readingOrder("package x\n"))
	listed := readingOrder(text)
	require.Equal(t, []string{"a.go", "b_linux.go"}, listed)
	require.Empty(t, compareFiles(listed, []string{"dir/b_linux.go", "dir/a.go", "dir/doc.go", "dir/a_test.go"}))
	problems := compareFiles(append(listed, "b_linux.go"), []string{"b_linux.go", "c.go"})
	require.Equal(t, []string{
		"doc.go lists a.go twice, or there is no such file",
		"doc.go lists b_linux.go twice, or there is no such file",
		"doc.go does not list c.go",
	}, problems)
}

func TestCountRefs(t *testing.T) {
	refs := []fileRef{{"a.go", "b.go", "T"}, {"a.go", "b.go", "T"}, {"b.go", "a.go", "U"}, {"b.go", "a.go", "V"}}
	count := countRefs(refs, map[string]int{"a.go": 1, "b.go": 2})
	require.EqualValues(t, 50, count.percent())
	require.Equal(t, "a.go uses T of b.go (2)\n", count.worst(10))
	require.Zero(t, countRefs(refs, map[string]int{"b.go": 1, "a.go": 1}).percent())
}
