package main

import (
	"cmp"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"strings"
)

// A comment is one comment group of a Go file.
type comment struct {
	file string
	line int
	// The declaration that the comment belongs to, or the function that it is in. For a
	// comment elsewhere it is "in a file".
	about string
	// The text ends in a newline. It has no comment markers and no directives.
	text string
}

// find returns the comments of all Go files below a directory. Directives such as
// //go:build are left out. Hidden directories and directories named testdata are skipped.
func find(dir fs.FS) (all []comment, err error) {
	err = fs.WalkDir(dir, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && name != "." && (strings.HasPrefix(entry.Name(), ".") || entry.Name() == "testdata"):
			return fs.SkipDir
		case entry.IsDir() || path.Ext(name) != ".go":
			return nil
		}
		source, err := fs.ReadFile(dir, name)
		if err != nil {
			return err
		}
		found, err := inFile(name, source)
		all = append(all, found...)
		return err
	})
	return all, err
}

// inFile returns the comments of one file.
func inFile(name string, source []byte) (found []comment, err error) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, name, source, parser.ParseComments)
	if err != nil {
		return nil, err
	}
	declared := declarations(file)
	for _, group := range file.Comments {
		if text := group.Text(); text != "" {
			about := cmp.Or(declared[group], function(file, group), "in a file")
			found = append(found, comment{name, files.Position(group.Pos()).Line, about, text})
		}
	}
	return found, nil
}

// declarations maps each comment of a declaration to a description of this declaration.
func declarations(file *ast.File) map[*ast.CommentGroup]string {
	about := make(map[*ast.CommentGroup]string)
	note := func(what string, groups ...*ast.CommentGroup) {
		for _, g := range groups {
			if g != nil {
				about[g] = what
			}
		}
	}
	owner := "" // " of T" for the fields and methods of a type T
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.File:
			note("package "+n.Name.Name, n.Doc)
		case *ast.FuncDecl:
			note(funcName(n), n.Doc)
			owner = ""
		case *ast.GenDecl:
			note(n.Tok.String()+declaredName(n.Specs), n.Doc)
		case *ast.TypeSpec:
			note("type "+n.Name.Name, n.Doc, n.Comment)
			owner = " of " + n.Name.Name
		case *ast.ValueSpec:
			note(n.Names[0].Name, n.Doc, n.Comment)
		case *ast.Field:
			note("field"+fieldName(n)+owner, n.Doc, n.Comment)
		}
		return true
	})
	return about
}

// function returns "in func F" for a comment in the function F. For other comments it
// returns "".
func function(file *ast.File, g *ast.CommentGroup) string {
	for _, d := range file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Pos() <= g.Pos() && g.Pos() < f.End() {
			return "in " + funcName(f)
		}
	}
	return ""
}

// funcName returns "func F" for a function, and "func F of T" for a method of the type T.
func funcName(f *ast.FuncDecl) string {
	name := "func " + f.Name.Name
	if f.Recv == nil {
		return name
	}
	t := f.Recv.List[0].Type
	for {
		switch of := t.(type) {
		case *ast.StarExpr:
			t = of.X
		case *ast.IndexExpr:
			t = of.X
		case *ast.IndexListExpr:
			t = of.X
		case *ast.Ident:
			return name + " of " + of.Name
		default:
			return name
		}
	}
}

// declaredName returns a space and the declared name. If several names are declared, it
// returns "".
func declaredName(specs []ast.Spec) string {
	if len(specs) != 1 {
		return ""
	}
	switch spec := specs[0].(type) {
	case *ast.TypeSpec:
		return " " + spec.Name.Name
	case *ast.ValueSpec:
		return " " + spec.Names[0].Name
	}
	return ""
}

// fieldName returns a space and the name of a field or method. For an embedded field it
// returns "".
func fieldName(f *ast.Field) string {
	if len(f.Names) == 0 {
		return ""
	}
	return " " + f.Names[0].Name
}
