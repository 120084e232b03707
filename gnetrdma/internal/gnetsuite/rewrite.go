// Package gnetsuite makes the tests of gnet test package gnetrdma. The tests are read
// from the module cache when they run, and rewritten: they use the network "rdma" instead
// of "tcp", and the functions of package gnetrdma instead of those of gnet.
package gnetsuite

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/printer"
	"go/token"
	"strings"
)

// Package is the name of the package of the rewritten files. They are the external tests
// of this package.
const Package = "gnetsuite_test"

const imports = `
	. "github.com/panjf2000/gnet/v2"
	"github.com/rdmaloop/rdmaloop/gnetrdma"
	"github.com/rdmaloop/rdmaloop/gnetrdma/internal/gnetsuite"
`

// replacements has new names for functions and types of the tests.
var replacements = map[string]string{
	"Run":                "gnetrdma.Run",
	"Rotate":             "gnetrdma.Rotate",
	"NewClient":          "gnetrdma.NewClient",
	"Client":             "gnetrdma.Client",
	"parseProtoAddr":     "gnetsuite.ParseProtoAddr",
	"SysClose":           "gnetsuite.SysClose",
	"net.Dial":           "gnetsuite.Dial",
	"net.Listen":         "gnetsuite.Listen",
	"net.ResolveTCPAddr": "gnetsuite.ResolveAddr",
}

// A File is a test file of gnet.
type File struct {
	Name   string
	Source []byte
}

// Rewrite returns the rewritten files. The error says which Exception matches nothing, or
// why a file can not be parsed.
func Rewrite(files []File) ([]File, error) {
	used := make([]bool, len(Exceptions))
	var result []File
	for _, f := range files {
		source, err := rewrite(f, used)
		if err != nil {
			return nil, err
		}
		result = append(result, File{f.Name, source})
	}
	for i, e := range Exceptions {
		if !used[i] {
			return nil, fmt.Errorf("the exception %q in %s matches no statement of gnet's tests", e.Statement, e.Function)
		}
	}
	return result, nil
}

func rewrite(f File, used []bool) ([]byte, error) {
	files := token.NewFileSet()
	tree, err := parser.ParseFile(files, f.Name, f.Source, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	tree.Name.Name = Package
	for _, decl := range tree.Decls {
		if fn, ok := decl.(*ast.FuncDecl); ok && fn.Body != nil {
			except(files, fn, used)
		}
	}
	ast.Inspect(tree, func(n ast.Node) bool {
		rename(n)
		return true
	})
	var out bytes.Buffer
	if err := printer.Fprint(&out, files, tree); err != nil {
		return nil, err
	}
	source := strings.Replace(out.String(), "import (", "import ("+imports, 1)
	return format.Source([]byte(source))
}

// rename replaces names and strings below a node.
func rename(n ast.Node) {
	switch n := n.(type) {
	case *ast.BasicLit:
		if n.Kind == token.STRING && !strings.Contains(n.Value, "/v2") {
			n.Value = strings.ReplaceAll(n.Value, "tcp", "rdma")
		}
	case *ast.CallExpr:
		n.Fun = replace(n.Fun)
		renameMethod(n)
	case *ast.StarExpr:
		n.X = replace(n.X)
	}
}

// replace returns the new name for a function or type.
func replace(e ast.Expr) ast.Expr {
	name := ""
	switch e := e.(type) {
	case *ast.Ident:
		name = e.Name
	case *ast.SelectorExpr:
		if x, ok := e.X.(*ast.Ident); ok {
			name = x.Name + "." + e.Sel.Name
		}
	}
	if to, ok := replacements[name]; ok {
		return &ast.Ident{NamePos: e.Pos(), Name: to}
	}
	return e
}

// renameMethod replaces methods of gnet.Engine by functions with the engine as their
// first argument.
func renameMethod(call *ast.CallExpr) {
	sel, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return
	}
	switch sel.Sel.Name {
	case "CountConnections":
		call.Fun = &ast.Ident{NamePos: call.Pos(), Name: "gnetrdma.CountConnections"}
		call.Args = []ast.Expr{sel.X}
	case "DupListener":
		call.Fun = &ast.Ident{NamePos: call.Pos(), Name: "gnetsuite.DupListener"}
		call.Args = append([]ast.Expr{sel.X}, call.Args...)
	}
}

// except removes or replaces the statements of a function that an Exception names.
func except(files *token.FileSet, fn *ast.FuncDecl, used []bool) {
	name := fn.Name.Name
	if fn.Recv != nil {
		name = text(files, fn.Recv.List[0].Type)
		name = strings.TrimPrefix(name, "*") + "." + fn.Name.Name
	}
	ast.Inspect(fn.Body, func(n ast.Node) bool {
		if block, ok := n.(*ast.BlockStmt); ok {
			block.List = exceptIn(files, name, block.List, used)
		}
		return true
	})
}

// exceptIn returns the statements of a list that stay.
func exceptIn(files *token.FileSet, function string, list []ast.Stmt, used []bool) []ast.Stmt {
	var stay []ast.Stmt
	for _, stmt := range list {
		i := exceptionFor(function, text(files, stmt))
		if i < 0 {
			stay = append(stay, stmt)
			continue
		}
		used[i] = true
		if with := Exceptions[i].With; with != "" {
			stay = append(stay, &ast.ExprStmt{X: &ast.Ident{NamePos: stmt.Pos(), Name: with}})
		}
	}
	return stay
}

// exceptionFor returns the index of the Exception for a statement, or -1.
func exceptionFor(function, statement string) int {
	for i, e := range Exceptions {
		if e.Function == function && strings.HasPrefix(statement, e.Statement) {
			return i
		}
	}
	return -1
}

// text returns the source of a node.
func text(files *token.FileSet, n ast.Node) string {
	var b bytes.Buffer
	if printer.Fprint(&b, files, n) != nil {
		return ""
	}
	return b.String()
}
