package rdmaloop_test

import (
	"bytes"
	"flag"
	"fmt"
	"go/ast"
	"go/build"
	"go/format"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var updateAPI = flag.Bool("update-api", false, "TestAPI writes api/next.txt instead of comparing with it")

// TestAPI checks that api/next.txt has the API, so that a review shows each change of it.
func TestAPI(t *testing.T) {
	const name = "api/next.txt"
	got := strings.Join(apiOf(t), "\n") + "\n"
	if *updateAPI {
		require.NoError(t, os.WriteFile(name, []byte(got), 0o666))
	}
	want, err := os.ReadFile(name)
	require.NoError(t, err)
	require.Equal(t, string(want), got, "the API has changed. If that is intended, run: make api")
}

// TestAPIKeeps checks that CHANGELOG.md, above the heading of the last release, names
// everything in the API of that release that has changed or is gone. The file of a release is
// never changed.
func TestAPIKeeps(t *testing.T) {
	releases, err := filepath.Glob("api/v*.txt")
	require.NoError(t, err)
	require.NotEmpty(t, releases)
	last := slices.MaxFunc(releases, func(a, b string) int { return slices.Compare(versionOf(t, a), versionOf(t, b)) })
	changes, err := os.ReadFile("CHANGELOG.md")
	require.NoError(t, err)
	heading := "\n## " + strings.TrimSuffix(filepath.Base(last), ".txt")
	above, _, found := strings.Cut(string(changes), heading)
	require.True(t, found, "CHANGELOG.md has no heading %q", heading)
	for _, name := range removedNames(readLines(t, last), readLines(t, "api/next.txt")) {
		require.Contains(t, above, "`"+name+"`", "the API of %s had it; an incompatible change needs a line in CHANGELOG.md", last)
	}
}

// removedNames returns the names, such as "reactor.Conn.Send", of the lines that a later API
// does not have.
func removedNames(earlier, later []string) (names []string) {
	for _, line := range earlier {
		if !slices.Contains(later, line) {
			name, _, _ := strings.Cut(strings.Fields(line)[1], "(")
			names = append(names, name)
		}
	}
	return names
}

func TestRemovedNames(t *testing.T) {
	earlier := []string{"func cm.DialAddr(string) error", "method cm.ID.Close() error", "type cm.ID struct"}
	require.Empty(t, removedNames(earlier, append([]string{"type cm.New int"}, earlier...)))
	require.Equal(t, []string{"cm.ID.Close"}, removedNames(earlier, []string{earlier[0], "method cm.ID.Close(int) error", earlier[2]}))
}

func versionOf(t *testing.T, name string) []int {
	var v [3]int
	_, err := fmt.Sscanf(filepath.Base(name), "v%d.%d.%d.txt", &v[0], &v[1], &v[2])
	require.NoError(t, err, name)
	return v[:]
}

func readLines(t *testing.T, name string) []string {
	text, err := os.ReadFile(name)
	require.NoError(t, err)
	return strings.Split(strings.TrimSpace(string(text)), "\n")
}

// apiOf returns a line for each exported name of the packages that users can import: constants,
// variables, functions, types, fields, and methods. The types are those of the source, for
// Linux.
func apiOf(t *testing.T) []string {
	lines := map[string]bool{}
	linux := build.Default
	linux.GOOS, linux.GOARCH, linux.CgoEnabled = "linux", "amd64", false
	require.NoError(t, filepath.WalkDir(".", func(dir string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return err
		}
		if regexp.MustCompile(`^(\..+|.*testdata|.*internal|bench|cmd|examples|tools|api|docs|scripts)$`).MatchString(dir) {
			return fs.SkipDir
		}
		pkg, err := linux.ImportDir(dir, 0)
		if _, none := err.(*build.NoGoError); none {
			return nil
		}
		require.NoError(t, err, dir)
		for _, name := range append(pkg.GoFiles, pkg.CgoFiles...) {
			file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(dir, name), nil, parser.SkipObjectResolution)
			require.NoError(t, err)
			a := api{pkg: pkg.Name, lines: lines}
			for _, decl := range file.Decls {
				a.add(decl)
			}
		}
		return nil
	}))
	return slices.Sorted(maps.Keys(lines))
}

// An api collects the lines of one package.
type api struct {
	pkg   string
	lines map[string]bool
}

func (a *api) line(kind, name, rest string) {
	a.lines[strings.TrimSpace(fmt.Sprintf("%s %s.%s%s", kind, a.pkg, name, rest))] = true
}

func (a *api) add(decl ast.Decl) {
	switch d := decl.(type) {
	case *ast.FuncDecl:
		a.addFunc(d)
	case *ast.GenDecl:
		var typ ast.Expr // of the constants before
		for _, spec := range d.Specs {
			switch s := spec.(type) {
			case *ast.TypeSpec:
				a.addType(s)
			case *ast.ValueSpec:
				if s.Type != nil || len(s.Values) > 0 || d.Tok == token.VAR {
					typ = s.Type
				}
				for _, name := range s.Names {
					if name.IsExported() {
						a.line(d.Tok.String(), name.Name, " "+text(typ))
					}
				}
			}
		}
	}
}

func (a *api) addFunc(d *ast.FuncDecl) {
	kind, name := "func", d.Name.Name
	if d.Recv != nil {
		kind = "method"
		receiver := d.Recv.List[0].Type
		if star, ok := receiver.(*ast.StarExpr); ok {
			receiver = star.X
		}
		if !ast.IsExported(text(receiver)) {
			return
		}
		name = text(receiver) + "." + name
	}
	if d.Name.IsExported() {
		a.line(kind, name, signature(d.Type))
	}
}

func (a *api) addType(s *ast.TypeSpec) {
	name := s.Name.Name
	if !s.Name.IsExported() {
		return
	}
	if s.Assign.IsValid() {
		a.line("type", name, " = "+text(s.Type))
		return
	}
	switch typ := s.Type.(type) {
	case *ast.StructType:
		a.line("type", name, " struct")
		for _, f := range typ.Fields.List {
			if len(f.Names) == 0 {
				a.line("embedded", name+"."+text(f.Type), "")
			}
			for _, field := range f.Names {
				if field.IsExported() {
					a.line("field", name+"."+field.Name, " "+text(f.Type))
				}
			}
		}
	case *ast.InterfaceType:
		a.line("type", name, " interface")
		for _, m := range typ.Methods.List {
			if f, ok := m.Type.(*ast.FuncType); ok {
				a.line("method", name+"."+m.Names[0].Name, signature(f))
			} else {
				a.line("embedded", name+"."+text(m.Type), "")
			}
		}
	default:
		a.line("type", name, " "+text(s.Type))
	}
}

// signature returns the parameters and results of a function, without their names.
func signature(f *ast.FuncType) string {
	types := func(list *ast.FieldList) (all []string) {
		if list == nil {
			return nil
		}
		for _, field := range list.List {
			for range max(1, len(field.Names)) {
				all = append(all, text(field.Type))
			}
		}
		return all
	}
	out := "(" + strings.Join(types(f.Params), ", ") + ")"
	switch results := types(f.Results); len(results) {
	case 0:
		return out
	case 1:
		return out + " " + results[0]
	default:
		return out + " (" + strings.Join(results, ", ") + ")"
	}
}

// text returns the source of a type in one line. Function types in it have no names either.
func text(e ast.Expr) string {
	switch e := e.(type) {
	case nil:
		return ""
	case *ast.FuncType:
		return "func" + signature(e)
	}
	var b bytes.Buffer
	_ = format.Node(&b, token.NewFileSet(), e) // Writing to a Buffer does not fail.
	return strings.Join(strings.Fields(b.String()), " ")
}
