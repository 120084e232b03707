package rdmaloop_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The tests in tidy_test.go and tidy_*_test.go check the style rules that a program can
// check. The tests read all Go files of the repository, regardless of build tags.

const module = "github.com/rdmaloop/rdmaloop"

const (
	maxFileLines = 800
	maxFuncLines = 100
)

// arrows has, for each package, the packages of this module that the package may import.
// A final /* means all packages below that directory. If several entries match a package,
// the longest entry counts.
var arrows = map[string][]string{
	".":                          {},
	"internal/*":                 {},
	"internal/testutil/freeport": {},
	"internal/testutil/cmside":   {"cm", "verbs"},
	"internal/testutil/peerproc": {"internal/fdevent"},
	"internal/testutil/pairtest": {"provider", "provider/soft", "reactor", "stream", "cm", "verbs"},
	"internal/wire":              {"internal/psn"},
	"internal/fdevent":           {"internal/slots"},
	"internal/simhost":           {"cm", "internal/fdevent", "verbs"},
	"internal/sim":               {"internal/fdevent", "internal/simhost", "internal/testutil/netsim", "internal/timerheap"},
	"internal/hostile": {
		"provider/soft", "reactor", "stream", "gnetrdma", "verbs", "internal/psn", "internal/wire",
		"examples/nvmeof/initiator", "examples/nvmeof/nvme", "examples/nvmeof/target",
	},
	"internal/vm/interop":       public,
	"internal/hostile/soak":     {"internal/hostile", "provider/soft"},
	"internal/asyncq":           {"verbs"},
	"internal/operr":            {"verbs"},
	"internal/testutil/faultcq": {"verbs", "internal/fdevent"},
	"verbs":                     {},
	"provider/providertest":     {"verbs", "cm", "internal/testutil/leak"},
	"poller":                    {"internal/fdevent"},
	"cq":                        {"verbs", "internal/fdevent", "internal/operr", "internal/slots"},
	"cm":                        {"verbs", "internal/fdevent", "internal/netaddr", "internal/operr"},
	"provider":                  {"provider/soft", "provider/rdmacore", "verbs", "cm", "internal/operr"},
	"provider/soft": {
		"verbs", "cm", "internal/limitlog", "internal/operr", "internal/psn", "internal/simhost", "internal/wire",
		"provider/soft/internal/access", "provider/soft/internal/capture", "provider/soft/internal/connmgr", "provider/soft/internal/counters",
		"provider/soft/internal/hostport", "provider/soft/internal/madcm", "provider/soft/internal/qp",
		"provider/soft/internal/random", "provider/soft/internal/rcpath", "provider/soft/internal/resource",
		"provider/soft/internal/shm", "provider/soft/internal/shmpath", "provider/soft/internal/simnet",
		"provider/soft/internal/udp", "provider/soft/internal/udpath",
		"provider/soft/internal/unixcm", "provider/soft/internal/unixsock",
	},

	"provider/soft/internal/capture": {"internal/psn", "internal/wire", "provider/soft/internal/fragment"},
	"provider/soft/internal/packets": {"internal/psn", "internal/wire", "provider/soft/internal/udp"},
	"provider/soft/internal/qp": {
		"verbs", "internal/asyncq", "internal/fdevent", "internal/operr", "internal/simhost", "internal/timerheap", "internal/wire",
		"provider/soft/internal/access", "provider/soft/internal/capture", "provider/soft/internal/counters", "provider/soft/internal/fragment",
		"provider/soft/internal/packets", "provider/soft/internal/random", "provider/soft/internal/resource",
		"provider/soft/internal/shm", "provider/soft/internal/udp",
	},
	"provider/soft/internal/rcpath": {
		"verbs", "internal/psn", "internal/timerheap", "internal/wire",
		"provider/soft/internal/access", "provider/soft/internal/counters", "provider/soft/internal/fragment",
		"provider/soft/internal/packets", "provider/soft/internal/qp", "provider/soft/internal/udp",
	},
	"provider/soft/internal/shmpath": {
		"verbs", "internal/timerheap", "internal/wire",
		"provider/soft/internal/access", "provider/soft/internal/capture", "provider/soft/internal/fragment",
		"provider/soft/internal/qp", "provider/soft/internal/shm",
	},
	"provider/soft/internal/udpath": {
		"verbs", "internal/psn", "internal/timerheap", "internal/wire",
		"provider/soft/internal/access", "provider/soft/internal/capture", "provider/soft/internal/counters", "provider/soft/internal/hostport",
		"provider/soft/internal/packets", "provider/soft/internal/qp", "provider/soft/internal/resource",
		"provider/soft/internal/udp", "provider/soft/internal/unixsock",
	},
	"provider/soft/internal/qptest": {
		"verbs", "internal/fdevent", "internal/testutil/netsim", "internal/wire",
		"provider/soft/internal/access", "provider/soft/internal/counters", "provider/soft/internal/packets",
		"provider/soft/internal/qp", "provider/soft/internal/shm", "provider/soft/internal/udp",
	},
	"provider/soft/internal/simnet": {
		"internal/fdevent", "internal/psn", "internal/simhost", "internal/wire",
		"provider/soft/internal/counters", "provider/soft/internal/madcm", "provider/soft/internal/qp", "provider/soft/internal/udp",
	},
	"provider/soft/internal/netlink":  {},
	"provider/soft/internal/random":   {"internal/simhost"},
	"provider/soft/internal/nettest":  {"internal/testutil/peerproc", "provider/soft/internal/hostport", "provider/soft/internal/netlink"},
	"provider/soft/internal/resource": {"verbs"},
	"provider/soft/internal/access":   {"provider/soft/internal/counters", "provider/soft/internal/resource"},
	"provider/soft/internal/counters": {"verbs", "internal/hwcounters"},
	"provider/soft/internal/fragment": {},
	"provider/soft/internal/shm": {
		"verbs", "internal/simhost", "provider/soft/internal/counters", "provider/soft/internal/fragment", "provider/soft/internal/random",
	},
	"provider/soft/internal/unixsock": {"verbs", "cm", "internal/fdevent", "provider/soft/internal/netlink", "provider/soft/internal/resource"},
	"provider/soft/internal/hostport": {
		"verbs", "cm", "internal/simhost",
		"provider/soft/internal/netlink", "provider/soft/internal/random", "provider/soft/internal/resource", "provider/soft/internal/unixsock",
	},
	"provider/soft/internal/connmgr": {
		"verbs", "cm", "internal/fdevent", "internal/operr", "internal/simhost", "internal/timerheap",
		"provider/soft/internal/access",
		"provider/soft/internal/hostport", "provider/soft/internal/random", "provider/soft/internal/resource",
		"provider/soft/internal/shm", "provider/soft/internal/udp",
	},
	"provider/soft/internal/connmgr/cmtest": {
		"verbs", "cm", "internal/testutil/cmside", "internal/testutil/leak", "provider/soft/internal/connmgr", "provider/soft/internal/counters",
	},
	"provider/soft/internal/unixcm": {
		"verbs", "cm", "internal/fdevent", "internal/timerheap",
		"provider/soft/internal/access", "provider/soft/internal/connmgr", "provider/soft/internal/counters",
		"provider/soft/internal/hostport", "provider/soft/internal/resource",
		"provider/soft/internal/shm", "provider/soft/internal/unixsock",
	},
	"provider/soft/internal/madcm": {
		"verbs", "cm", "internal/fdevent", "internal/psn", "internal/timerheap", "internal/wire",
		"provider/soft/internal/access", "provider/soft/internal/capture", "provider/soft/internal/connmgr", "provider/soft/internal/counters",
		"provider/soft/internal/hostport", "provider/soft/internal/random", "provider/soft/internal/udp",
	},
	"provider/soft/internal/udp": {"verbs", "cm", "internal/fdevent", "internal/wire", "internal/psn", "provider/soft/internal/capture", "provider/soft/internal/counters", "provider/soft/internal/hostport", "provider/soft/internal/resource"},

	"provider/rdmacore":                {"verbs", "cm", "internal/asyncq", "internal/fdevent", "internal/hwcounters", "internal/operr", "provider/rdmacore/internal/ccall"},
	"provider/rdmacore/internal/ccall": {},
	"reactor": {
		"verbs", "cq", "cm", "poller", "internal/operr", "internal/fdevent", "internal/goroutine", "internal/limitlog", "internal/simhost", "internal/slots", "internal/timerheap",
		"reactor/internal/closemsg", "reactor/internal/longmsg", "reactor/internal/memory", "reactor/internal/slab",
	},
	"reactortest":                 {"cm", "verbs", "internal/sim", "internal/simhost", "internal/testutil/netsim", "provider/soft", "reactor"},
	"reactor/internal/memory":     {"verbs"},
	"reactor/internal/memorytest": {"verbs"},
	"reactor/internal/slab":       {"verbs"},
	"reactor/internal/closemsg":   {},
	"reactor/internal/longmsg":    {},
	"monitor":                     {"reactor", "verbs"},
	"cmd/rdmaloop":                append([]string{"cmd/rdmaloop/internal/doctor", "monitor", "provider/providertest"}, public...),
	"cmd/rdmaloop/internal/*":     {},
	"stream":                      {"verbs", "cm", "reactor", "internal/netaddr", "internal/operr", "stream/internal/rsocket", "stream/internal/turns"},
	"stream/internal/rsocket":     {},
	"stream/internal/turns":       {"reactor", "verbs", "internal/operr"},
	"gnetrdma":                    {"verbs", "cm", "reactor", "stream", "provider", "internal/netaddr"},
	"gnetrdma/internal/gnetsuite": {"provider/soft", "stream"},
	"metrics":                     {"monitor", "reactor", "verbs"},
	"examples/*":                  public,
	"examples/echo":               append([]string{"examples/latency"}, public...),
	"examples/gateway":            append([]string{"examples/latency"}, public...),
	"examples/gnet*":              append([]string{"examples/gnet/shout"}, public...),
	"examples/gnet/shout":         {},
	"examples/nvmeof":             append([]string{"examples/nvmeof/disk", "examples/nvmeof/initiator", "examples/nvmeof/nvme", "examples/nvmeof/target"}, public...),
	"examples/nvmeof/disk":        {},
	"examples/nvmeof/initiator":   {"cm", "examples/nvmeof/nvme", "reactor", "verbs"},
	"examples/nvmeof/nvme":        {},
	"examples/nvmeof/target":      {"examples/nvmeof/nvme", "reactor", "verbs"},
	"examples/kvread":             append([]string{"examples/kvread/client", "examples/kvread/server"}, public...),
	"examples/kvread/client":      {"cm", "examples/kvread/message", "examples/kvread/pages", "reactor", "verbs"},
	"examples/kvread/message":     {"reactor"},
	"examples/kvread/pages":       {},
	"examples/kvread/server":      {"cm", "examples/kvread/message", "reactor", "verbs"},
	"bench":                       append([]string{"bench/pin", "examples/latency"}, public...),
	"bench/memory":                public,
	"bench/pin":                   {},
	"bench/rdmacore":              append([]string{"bench/pin", "examples/latency"}, public...),
}

var public = []string{"verbs", "poller", "cq", "cm", "reactor", "stream", "gnetrdma", "metrics", "provider", "provider/soft", "provider/rdmacore", "monitor"}

// testArrows has, for each package, the packages that its tests may import in addition to
// the packages in arrows.
var testArrows = map[string][]string{
	".":                     slices.Concat(public, testSupport),
	"*":                     testSupport,
	"monitor":               slices.Concat([]string{"provider/soft"}, testSupport),
	"reactor":               slices.Concat([]string{"provider/soft"}, testSupport),
	"stream":                slices.Concat([]string{"provider/soft"}, testSupport),
	"internal/instructions": slices.Concat([]string{"provider/soft", "reactor", "stream"}, testSupport),
	"stream/internal/turns": slices.Concat([]string{"provider/soft"}, testSupport),
	"provider/soft": slices.Concat([]string{
		"provider/soft/internal/fragment", "provider/soft/internal/netlink", "provider/soft/internal/packets", "reactor", "stream",
	}, testSupport),
	"provider/soft/internal/madcm":   slices.Concat([]string{"internal/simhost"}, testSupport),
	"provider/soft/internal/qp":      slices.Concat([]string{"internal/psn", "provider/soft/internal/hostport"}, testSupport),
	"provider/soft/internal/shmpath": slices.Concat([]string{"internal/fdevent", "provider/soft/internal/counters", "provider/soft/internal/random"}, testSupport),
	"provider/soft/internal/udpath":  slices.Concat([]string{"internal/fdevent"}, testSupport),
	"gnetrdma":                       slices.Concat([]string{"gnetrdma/internal/gnetsuite", "provider/soft"}, testSupport),

	"provider/soft/internal/unixcm": slices.Concat([]string{
		"internal/wire", "provider/soft/internal/madcm", "provider/soft/internal/random", "provider/soft/internal/udp",
	}, testSupport),

	"metrics": slices.Concat([]string{"provider/soft"}, testSupport),

	"examples/nvmeof/target": {"cm", "examples/nvmeof/initiator", "internal/testutil/freeport", "provider", "provider/soft"},
	"examples/kvread/client": {"internal/testutil/leak", "provider/soft"},
	"examples/kvread/server": {"examples/kvread/client", "internal/testutil/freeport", "internal/testutil/leak", "provider/soft"},
}

var testSupport = []string{"internal/testutil/freeport",
	"internal/testutil/leak", "internal/testutil/cmside", "internal/testutil/peerproc", "internal/testutil/netsim",
	"provider/soft/internal/connmgr/cmtest", "provider/soft/internal/nettest", "internal/testutil/faultcq",
	"internal/testutil/onthread", "internal/testutil/pcapng", "provider/providertest", "reactor/internal/memorytest",
	"provider/soft/internal/qptest", "reactortest",
}

// A source is one parsed file.
type source struct {
	path string // path of the file, relative to the root of the module, with slashes
	fset *token.FileSet
	file *ast.File
}

// A rule checks one file, and returns a description of each violation.
type rule func(*source) []string

var rules = map[string]rule{
	"imports follow the arrows":      checkArrows,
	"modules are those allowed":      checkModules,
	"cgo and unsafe are confined":    checkUnsafe,
	"no unfinished work":             checkUnfinished,
	"exported names are documented":  checkDocs,
	"examples are whole programs":    checkExamples,
	"files and functions stay small": checkSize,
}

func TestTidy(t *testing.T) {
	sources := readSources(t, ".")
	require.Contains(t, paths(sources), "verbs/wr.go", "the walk misses files")
	for name, check := range rules {
		t.Run(name, func(t *testing.T) {
			for _, s := range sources {
				for _, problem := range check(s) {
					t.Error(problem)
				}
			}
		})
	}
}

// TestArrowsExist checks that all packages in the variables arrows, testArrows and
// testSupport exist.
func TestArrowsExist(t *testing.T) {
	for _, table := range []map[string][]string{arrows, testArrows} {
		for from, allowed := range table {
			for _, pkg := range append(slices.Clone(allowed), from) {
				if pkg = strings.TrimRight(pkg, "/*"); pkg != "" { // "*" means all packages.
					require.DirExists(t, filepath.FromSlash(pkg), "in the arrows of %s", from)
				}
			}
		}
	}
}

func readSources(t *testing.T, root string) []*source {
	var sources []*source
	err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if hidden := strings.HasPrefix(entry.Name(), ".") && name != root; entry.IsDir() && (hidden || entry.Name() == "testdata") {
			return filepath.SkipDir
		}
		if entry.IsDir() || filepath.Ext(name) != ".go" {
			return nil
		}
		rel, err := filepath.Rel(root, name)
		if err == nil {
			sources = append(sources, parse(t, filepath.ToSlash(rel), name, nil))
		}
		return err
	})
	require.NoError(t, err)
	return sources
}

// parse parses the Go file with the given name. If text is not nil, parse uses text
// instead of the contents of the file.
func parse(t *testing.T, path, name string, text any) *source {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, text, parser.ParseComments)
	require.NoError(t, err)
	return &source{path: path, fset: fset, file: file}
}

func paths(sources []*source) []string {
	var all []string
	for _, s := range sources {
		all = append(all, s.path)
	}
	return all
}

func (s *source) dir() string { return path.Dir(s.path) }

func (s *source) isTest() bool { return strings.HasSuffix(s.path, "_test.go") }

// isExample reports whether the file has documentation examples. Such a file may import
// only the public packages of this module, like an application.
func (s *source) isExample() bool { return path.Base(s.path) == "example_test.go" }

// isApplication reports whether the file belongs to an application: a program below the
// directory examples, or a benchmark program.
func (s *source) isApplication() bool {
	return fits("examples/*", s.dir()) || fits("bench*", s.dir())
}

func (s *source) lines(n ast.Node) int {
	return s.fset.Position(n.End()).Line - s.fset.Position(n.Pos()).Line + 1
}

// problem returns the description of a violation at the given node, with the name of the
// file and the number of the line.
func (s *source) problem(at ast.Node, format string, args ...any) string {
	return fmt.Sprintf("%s:%d: ", s.path, s.fset.Position(at.Pos()).Line) + fmt.Sprintf(format, args...)
}

// eachImport calls report with the path of each import of the file. The function report
// returns the description of a violation, or an empty string. The result has the
// descriptions of all violations.
func (s *source) eachImport(report func(name string) string) (problems []string) {
	for _, spec := range s.file.Imports {
		if text := report(strings.Trim(spec.Path.Value, `"`)); text != "" {
			problems = append(problems, s.problem(spec, "%s", text))
		}
	}
	return problems
}

// fits reports whether the name of a table entry matches the package pkg. A * at the end
// of the name matches any text.
func fits(name, pkg string) bool {
	below, wild := strings.CutSuffix(name, "*")
	return pkg == name || wild && strings.HasPrefix(pkg, below)
}

// lookup returns the entry of a table for the package pkg. If several entries match, the
// entry with the longest name counts. For the package ".", the entry "." counts and not
// "*".
func lookup(table map[string][]string, pkg string) (allowed []string, ok bool) {
	longest := ""
	for _, name := range slices.Sorted(maps.Keys(table)) {
		if fits(name, pkg) && len(name) >= len(longest) {
			longest, ok = name, true
		}
	}
	return table[longest], ok
}

func checkArrows(s *source) []string {
	allowed, known := lookup(arrows, s.dir())
	if !known {
		return []string{s.problem(s.file, "package %s is not in the table of arrows", s.dir())}
	}
	switch {
	case s.isExample():
		allowed = public
	case s.isTest():
		more, _ := lookup(testArrows, s.dir())
		allowed = slices.Concat(allowed, more, []string{s.dir()})
	}
	return s.eachImport(func(name string) string {
		pkg, ours := strings.CutPrefix(name, module+"/")
		if !ours || slices.ContainsFunc(allowed, func(name string) bool { return fits(name, pkg) }) {
			return ""
		}
		return fmt.Sprintf("%s must not import %s", s.dir(), pkg)
	})
}

func checkUnsafe(s *source) []string {
	if s.dir() == "provider/rdmacore" || s.dir() == "bench/rdmacore" {
		return nil
	}
	marked := strings.HasSuffix(strings.TrimSuffix(strings.TrimSuffix(s.path, ".go"), "_test"), "_unsafe")
	return s.eachImport(func(name string) string {
		switch {
		case name == "C":
			return "cgo belongs in provider/rdmacore and bench/rdmacore"
		case name == "unsafe" && !marked:
			return "unsafe belongs in a file named *_unsafe.go"
		}
		return ""
	})
}

var unfinished = regexp.MustCompile(`\b(TODO|FIXME|XXX|HACK)\b`)

func checkUnfinished(s *source) (problems []string) {
	for _, group := range s.file.Comments {
		if word := unfinished.FindString(group.Text()); word != "" {
			problems = append(problems, s.problem(group, "%s", word))
		}
	}
	return problems
}

func checkSize(s *source) (problems []string) {
	check := func(name string, lines, limit int) {
		if lines > limit {
			problems = append(problems, fmt.Sprintf("%s has %d lines, the limit is %d", name, lines, limit))
		}
	}
	check(s.path, s.fset.File(s.file.FileStart).LineCount(), maxFileLines)
	for _, decl := range s.file.Decls {
		if fn, ok := decl.(*ast.FuncDecl); ok {
			check(s.path+":"+fn.Name.Name, s.lines(fn), maxFuncLines)
		}
	}
	return problems
}
