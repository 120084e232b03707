//go:build linux

package soft

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// pathFiles returns the source files of the local, wire and UD paths, without tests.
func pathFiles(t *testing.T) []string {
	entries, err := os.ReadDir(".")
	require.NoError(t, err)
	var files []string
	for _, e := range entries {
		prefix, _, _ := strings.Cut(e.Name(), "_")
		isPath := prefix == "rc" || prefix == "shm" || prefix == "ud" || e.Name() == "congestion.go"
		if isPath && !strings.HasSuffix(e.Name(), "_test.go") {
			files = append(files, e.Name())
		}
	}
	require.NotEmpty(t, files)
	return files
}

// The source files of the paths may use only these fields and methods of a queue pair:
// the methods of the interface engine, and fields that never change. In these files a
// queue pair is always named q.
func TestPathsUseOnlyEngine(t *testing.T) {
	allowed := map[string]bool{"dev": true, "shard": true, "num": true}
	methods := reflect.TypeFor[engine]()
	for i := range methods.NumMethod() {
		allowed[methods.Method(i).Name] = true
	}
	used := map[string]bool{}
	for _, name := range pathFiles(t) {
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, name, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		for _, decl := range file.Decls {
			if !hasReceiverQ(decl) {
				usesOfQP(decl, func(use *ast.SelectorExpr) {
					used[use.Sel.Name] = true
					require.True(t, allowed[use.Sel.Name], "%v uses q.%s", files.Position(use.Pos()), use.Sel.Name)
				})
			}
		}
	}
	for name := range allowed {
		require.True(t, used[name], "no path uses q.%s", name)
	}
}

// hasReceiverQ reports whether a declaration is a method whose receiver is named q. In
// the files of the paths, such a receiver is not a queue pair, but a queue of packets,
// connections or other elements.
func hasReceiverQ(decl ast.Decl) bool {
	f, ok := decl.(*ast.FuncDecl)
	return ok && f.Recv != nil && len(f.Recv.List[0].Names) == 1 && f.Recv.List[0].Names[0].Name == "q"
}

// usesOfQP calls visit() for each expression of the form q.name or x.q.name in a
// declaration.
func usesOfQP(decl ast.Decl, visit func(*ast.SelectorExpr)) {
	ast.Inspect(decl, func(n ast.Node) bool {
		s, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		switch x := s.X.(type) {
		case *ast.Ident:
			if x.Name == "q" {
				visit(s)
			}
		case *ast.SelectorExpr:
			if x.Sel.Name == "q" {
				visit(s)
			}
		}
		return true
	})
}
