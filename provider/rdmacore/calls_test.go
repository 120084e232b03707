//go:build cgo && linux

package rdmacore_test

import (
	"debug/elf"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A callRow is a row of a table in docs/calls.md.
type callRow struct {
	calls []string // names of C
	here  string   // what the calls are in this library
	names []string // what is quoted in here
}

// missing reports whether the library has no counterpart of the calls.
func (r *callRow) missing() bool { return strings.HasPrefix(r.here, "not here: ") }

// isSource reports whether the comment of a Go name names the manual page of a call of its row.
func (r *callRow) isSource(comments map[string]string) bool {
	return slices.ContainsFunc(r.names, func(name string) bool {
		return slices.ContainsFunc(r.calls, func(call string) bool { return strings.Contains(comments[name], call+"(3)") })
	})
}

var quoted = regexp.MustCompile("`([^`]*)`")

func quotedIn(text string) (list []string) {
	for _, m := range quoted.FindAllStringSubmatch(text, -1) {
		list = append(list, m[1])
	}
	return list
}

// readCalls returns the text and the rows of docs/calls.md.
func readCalls(t *testing.T) (page string, rows []callRow) {
	t.Helper()
	text, err := os.ReadFile("../../docs/calls.md")
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		if !strings.HasPrefix(line, "|") || line == "| C | Go |" || line == "|---|---|" {
			continue
		}
		cells := strings.Split(strings.TrimSuffix(strings.TrimPrefix(line, "| "), " |"), " | ")
		require.Len(t, cells, 2, line)
		row := callRow{calls: quotedIn(cells[0]), here: cells[1], names: quotedIn(cells[1])}
		require.Equal(t, "`"+strings.Join(row.calls, "`, `")+"`", cells[0], "a list of calls")
		rows = append(rows, row)
	}
	return string(text), rows
}

// TestCalls checks that the tables of docs/calls.md have exactly the calls of the installed
// libraries and of their headers.
func TestCalls(t *testing.T) {
	needHeaders(t)
	page, rows := readCalls(t)
	require.Contains(t, page, "rdma-core "+callsVersion+", the version of Debian 12")
	listed := map[string]bool{}
	for _, row := range rows {
		for _, call := range row.calls {
			require.False(t, listed[call], "%s is in two rows", call)
			listed[call] = true
		}
	}
	exported := map[string]bool{}
	for _, soname := range []string{"libibverbs.so.1", "librdmacm.so.1"} {
		library := needLibrary(t, soname)
		version := libraryVersion.FindStringSubmatch(library)
		require.NotNil(t, version, library)
		if version[1] != callsVersion {
			t.Skipf("docs/calls.md is about rdma-core %s: %s", callsVersion, library)
		}
		addExported(t, library, exported)
	}
	inHeaders := declaredCalls(t)
	require.Greater(t, min(len(exported), len(inHeaders)), 90)
	for _, call := range slices.Sorted(maps.Keys(exported)) {
		require.True(t, listed[call], "a library exports %s, which is in no row", call)
	}
	for _, call := range slices.Sorted(maps.Keys(inHeaders)) {
		require.True(t, listed[call], "a header has %s, which is in no row", call)
	}
	for _, call := range slices.Sorted(maps.Keys(listed)) {
		require.True(t, exported[call] || inHeaders[call], "%s is in a row, and neither a library nor a header has it", call)
	}
}

// callsVersion is the version of rdma-core that docs/calls.md is about.
const callsVersion = "44"

// libraryVersion finds the version of rdma-core in the name of a library, such as
// libibverbs.so.1.14.44.0.
var libraryVersion = regexp.MustCompile(`\.so\.\d+\.\d+\.(\d+)\.\d+$`)

// needLibrary returns the file of a library, without symbolic links. It skips the test if the
// library is not installed.
func needLibrary(t *testing.T, soname string) string {
	t.Helper()
	out, err := exec.Command("cc", "-print-file-name="+soname).Output()
	require.NoError(t, err)
	name := strings.TrimSpace(string(out))
	if !filepath.IsAbs(name) {
		t.Skipf("%s is not installed", soname)
	}
	name, err = filepath.EvalSymlinks(name)
	require.NoError(t, err)
	return name
}

// A callName is the name of a call of libibverbs or librdmacm. The calls of rsocket(7) have
// other names.
var callName = regexp.MustCompile(`^(?:ibv_|rdma_|mbps_to_ibv_|mult_to_ibv_)\w+$`)

// addExported adds the calls that a library exports. What the drivers of libibverbs use has
// a version of its own. A symbol with an underscore is of a function in a header.
func addExported(t *testing.T, library string, calls map[string]bool) {
	t.Helper()
	file, err := elf.Open(library)
	require.NoError(t, err)
	defer file.Close()
	symbols, err := file.DynamicSymbols()
	require.NoError(t, err)
	for _, s := range symbols {
		require.True(t, s.HasVersion || s.Section == elf.SHN_UNDEF, s.Name)
		name := strings.TrimPrefix(s.Name, "_")
		if s.Section != elf.SHN_UNDEF && callName.MatchString(name) && !strings.Contains(s.Version, "PRIVATE") {
			calls[name] = true
		}
	}
}

// inlineFunction finds the definitions in headers. A macro is the name of a function that is
// exported, too.
var inlineFunction = regexp.MustCompile(`static inline\s[^;{}()]*?\b((?:ibv|rdma)_\w+)\s*\(`)

// declaredCalls returns the calls that headers define.
func declaredCalls(t *testing.T) map[string]bool {
	t.Helper()
	c := exec.Command("cc", "-E", "-P", "-x", "c", "-")
	c.Stdin = strings.NewReader("#include <infiniband/verbs.h>\n#include <rdma/rdma_cma.h>\n#include <rdma/rdma_verbs.h>\n")
	text, err := c.Output()
	require.NoError(t, err)
	calls := map[string]bool{}
	for _, m := range inlineFunction.FindAllSubmatch(text, -1) {
		calls[string(m[1])] = true
	}
	return calls
}

// TestCallNames checks what docs/calls.md says of the calls: the names of Go exist, and
// a call that this provider makes is not missing: the comment of a Go name in its row names
// the manual page.
func TestCallNames(t *testing.T) {
	_, rows := readCalls(t)
	exists, made, comments := apiNames(t), madeCalls(t), readComments(t)
	require.Greater(t, min(len(made), len(comments)), 50)
	for _, row := range rows {
		require.True(t, row.missing() || len(row.names) > 0, "%s: neither a name of Go nor \"not here: \"", row.calls)
		for _, name := range row.names {
			require.True(t, exists[name], "%s: no package has %s", row.calls, name)
		}
		for _, call := range row.calls {
			if made[call] {
				delete(made, call)
				require.False(t, row.missing(), "%s: this provider calls it", call)
				require.True(t, row.isSource(comments), "%s: no comment of %q names its manual page", call, row.names)
			}
		}
	}
	require.Empty(t, made, "calls that are in no row")
}

// apiNames returns the exported names of the library, such as "verbs.QP.PostSend".
func apiNames(t *testing.T) map[string]bool {
	t.Helper()
	api, err := os.ReadFile("../../api/next.txt")
	require.NoError(t, err)
	names := map[string]bool{}
	for line := range strings.Lines(string(api)) {
		name, _, _ := strings.Cut(strings.Fields(line)[1], "(")
		names[name] = true
	}
	return names
}

// TestFromLibrdmacm checks that the names in docs/from-librdmacm.md exist: those of Go, the
// calls of C and the events.
func TestFromLibrdmacm(t *testing.T) {
	page, err := os.ReadFile("../../docs/from-librdmacm.md")
	require.NoError(t, err)
	header, err := os.ReadFile("rdma.h")
	require.NoError(t, err)
	known := apiNames(t)
	_, rows := readCalls(t)
	for _, row := range rows {
		for _, call := range row.calls {
			known[call] = true
		}
	}
	for _, event := range regexp.MustCompile(`\bRDMA_CM_EVENT_\w+`).FindAllString(string(header), -1) {
		known[event] = true
	}
	checked := 0
	for _, name := range quotedIn(regexp.MustCompile("(?s)```.*?```").ReplaceAllString(string(page), "")) {
		// The other names are of files, programs and fields.
		if regexp.MustCompile(`^\w+\.[A-Z]|^(?:rdma|ibv)_|^RDMA_`).MatchString(name) {
			checked++
			require.True(t, known[name], "%s does not exist", name)
		}
	}
	require.Greater(t, checked, 90)
}

var (
	madeFunction = regexp.MustCompile(`(?m)^\tF\((?:VERBS|CM), "[^"]*", [^,]*, _?(\w+),`)
	madeInline   = regexp.MustCompile(`(?m)^static inline .*?\b((?:ibv|rdma)_\w+)\(`)
)

// madeCalls returns the calls that this provider makes: those in rdma.h.
func madeCalls(t *testing.T) map[string]bool {
	t.Helper()
	text, err := os.ReadFile("rdma.h")
	require.NoError(t, err)
	calls := map[string]bool{}
	for _, m := range append(madeFunction.FindAllSubmatch(text, -1), madeInline.FindAllSubmatch(text, -1)...) {
		calls[string(m[1])] = true
	}
	return calls
}

// readComments returns the comments of exported names, such as "verbs.QP.PostSend". A field
// also has the comment of its structure.
func readComments(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, dir := range []string{".", "../../cm", "../../cq", "../../verbs"} {
		names, err := filepath.Glob(dir + "/*.go")
		require.NoError(t, err)
		for _, name := range names {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments|parser.SkipObjectResolution)
			require.NoError(t, err)
			addComments(file, all)
		}
	}
	return all
}

func addComments(file *ast.File, all map[string]string) {
	prefix := file.Name.Name + "."
	for _, decl := range file.Decls {
		switch decl := decl.(type) {
		case *ast.FuncDecl:
			name := decl.Name.Name
			if decl.Recv != nil {
				typ := decl.Recv.List[0].Type
				if star, ok := typ.(*ast.StarExpr); ok {
					typ = star.X
				}
				name = typ.(*ast.Ident).Name + "." + name
			}
			all[prefix+name] += decl.Doc.Text()
		case *ast.GenDecl:
			for _, spec := range decl.Specs {
				typ, ok := spec.(*ast.TypeSpec)
				if !ok {
					continue
				}
				doc := decl.Doc.Text() + typ.Doc.Text()
				all[prefix+typ.Name.Name] = doc
				addMembers(typ, prefix+typ.Name.Name+".", doc, all)
			}
		}
	}
}

// addMembers adds the comments of methods of an interface, or of fields of a structure.
func addMembers(typ *ast.TypeSpec, prefix, doc string, all map[string]string) {
	var members *ast.FieldList
	switch typ := typ.Type.(type) {
	case *ast.InterfaceType:
		members, doc = typ.Methods, ""
	case *ast.StructType:
		members = typ.Fields
	default:
		return
	}
	for _, field := range members.List {
		for _, name := range field.Names {
			all[prefix+name.Name] = doc + field.Doc.Text()
		}
	}
}
