package rdmaloop_test

import (
	"go/ast"
	"go/doc"
	"slices"
)

// Methods that need no comment, because the standard library defines them.
var wellKnown = []string{"String", "Error", "Is", "Unwrap"}

// checkDocs requires a comment on every exported declaration. The comment of a group is
// enough for its members.
func checkDocs(s *source) []string {
	if s.isTest() || s.file.Name.Name == "main" {
		return nil
	}
	var problems []string
	for _, decl := range s.file.Decls {
		for _, name := range undocumented(decl) {
			problems = append(problems, s.problem(decl, "%s has no comment", name))
		}
	}
	return problems
}

func undocumented(decl ast.Decl) (names []string) {
	switch decl := decl.(type) {
	case *ast.FuncDecl:
		if decl.Doc == nil && decl.Name.IsExported() && exportedReceiver(decl) {
			names = append(names, decl.Name.Name)
		}
	case *ast.GenDecl:
		if decl.Doc != nil {
			return nil
		}
		for _, spec := range decl.Specs {
			names = append(names, undocumentedSpec(spec)...)
		}
	}
	return names
}

// exportedReceiver reports whether an exported function or method needs a comment.
// Methods of unexported types and the methods in wellKnown need no comment.
func exportedReceiver(fn *ast.FuncDecl) bool {
	if fn.Recv == nil {
		return true
	}
	if slices.Contains(wellKnown, fn.Name.Name) {
		return false
	}
	t := fn.Recv.List[0].Type
	for {
		switch inner := t.(type) {
		case *ast.StarExpr:
			t = inner.X
		case *ast.IndexExpr:
			t = inner.X
		case *ast.IndexListExpr:
			t = inner.X
		case *ast.Ident:
			return inner.IsExported()
		default:
			return false
		}
	}
}

func undocumentedSpec(spec ast.Spec) (names []string) {
	switch spec := spec.(type) {
	case *ast.TypeSpec:
		if spec.Name.IsExported() && spec.Doc == nil && spec.Comment == nil {
			names = append(names, spec.Name.Name)
		}
	case *ast.ValueSpec:
		if spec.Doc != nil || spec.Comment != nil {
			return nil
		}
		for _, name := range spec.Names {
			if name.IsExported() {
				names = append(names, name.Name)
			}
		}
	}
	return names
}

// checkExamples requires an output comment, because go test does not run an example
// without one. An example must use only declarations of its own file, because the
// documentation shows no other file.
func checkExamples(s *source) (problems []string) {
	if !s.isExample() {
		return nil
	}
	for _, e := range doc.Examples(s.file) {
		if e.Output == "" && !e.EmptyOutput {
			problems = append(problems, s.problem(e.Code, "Example%s has no output", e.Name))
		} else if e.Play == nil {
			problems = append(problems, s.problem(e.Code, "Example%s uses what is not in its file", e.Name))
		}
	}
	return problems
}
