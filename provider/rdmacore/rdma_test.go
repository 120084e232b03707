//go:build cgo && linux

package rdmacore_test

import (
	"debug/dwarf"
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// declarations are a C program that includes rdma.h. Like every program, it has no use for most
// declarations; rdma.h has the same constants as macros or as enumerators.
const declarations = `
#include "rdma.h"
enum { value_of_RDMA_UDP_QKEY = RDMA_UDP_QKEY };
`

// prototypes is a C program that compiles only if the functions in rdma.h have the parameters
// and results that the headers of rdma-core declare.
const prototypes = `
#define _compat_ibv_port_attr ibv_port_attr /* The library takes both; see ibv_query_port(3). */
#include "rdma.h"
#define F(library, version, result, name, parameters, arguments) \
	_Static_assert(__builtin_types_compatible_p(__typeof__(name), result parameters), #name);
RL_FUNCTIONS(F)
`

// compile compiles a C program and returns the object file.
func compile(t *testing.T, program string, flags ...string) (object string) {
	t.Helper()
	object = filepath.Join(t.TempDir(), "declarations.o")
	c := exec.Command("cc", append(flags, "-g", "-fno-eliminate-unused-debug-types", "-I.", "-x", "c", "-c", "-o", object, "-")...)
	c.Stdin = strings.NewReader(program)
	out, err := c.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return object
}

// needCompiler skips the test if there is no C compiler, as on a machine that only runs the
// test program.
func needCompiler(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("cc"); err != nil {
		t.Skip(err)
	}
}

// needHeaders skips the test if the headers of rdma-core are not installed.
func needHeaders(t *testing.T) {
	t.Helper()
	needCompiler(t)
	for _, header := range []string{"infiniband/verbs.h", "rdma/rdma_cma.h"} {
		c := exec.Command("cc", "-E", "-x", "c", "-")
		c.Stdin = strings.NewReader("#include <" + header + ">\n")
		if err := c.Run(); err != nil {
			t.Skipf("no header %s: %v", header, err)
		}
	}
}

// A layout has the sizes and fields of structures, and the values of enumerators, by name.
type layout struct {
	sizes, values map[string]int64
	fields        map[string]string // "struct.field" has the offset and size
}

// layoutOf returns the layout of what an object file declares.
func layoutOf(t *testing.T, object string) layout {
	t.Helper()
	file, err := elf.Open(object)
	require.NoError(t, err)
	defer file.Close()
	data, err := file.DWARF()
	require.NoError(t, err)
	l := layout{sizes: map[string]int64{}, values: map[string]int64{}, fields: map[string]string{}}
	for r := data.Reader(); ; {
		entry, err := r.Next()
		require.NoError(t, err)
		if entry == nil {
			return l
		}
		if entry.Tag != dwarf.TagStructType && entry.Tag != dwarf.TagUnionType && entry.Tag != dwarf.TagEnumerationType {
			continue
		}
		typ, err := data.Type(entry.Offset)
		require.NoError(t, err)
		switch typ := typ.(type) {
		case *dwarf.EnumType:
			for _, v := range typ.Val {
				l.values[v.Name] = v.Val
			}
		case *dwarf.StructType:
			if typ.StructName != "" && !typ.Incomplete {
				l.sizes[typ.StructName] = typ.ByteSize
				l.addFields(typ.StructName, 0, typ)
			}
		}
	}
}

// addFields adds the fields of a structure, and those of structures and unions without a tag
// in it.
func (l *layout) addFields(prefix string, base int64, typ *dwarf.StructType) {
	for _, f := range typ.Field {
		name := prefix
		if f.Name != "" {
			name += "." + f.Name
			l.fields[name] = fmt.Sprintf("at %d, %d bytes", base+f.ByteOffset, f.Type.Size())
		}
		if nested, ok := f.Type.(*dwarf.StructType); ok && nested.StructName == "" {
			l.addFields(name, base+f.ByteOffset, nested)
		}
	}
}

// shorter are the structures that only the libraries allocate, and that rdma.h therefore
// declares only up to the last field that is used.
var shorter = map[string]bool{
	"ibv_device": true, "ibv_context": true, "ibv_mw": true, "ibv_comp_channel": true, "ibv_cq": true,
	"ibv_qp": true, "ibv_srq": true, "ibv_ah": true, "ibv_pd": true, "rdma_cm_id": true,
}

// TestLayout checks that every structure, field and enumerator in rdma.h is that of the
// headers of rdma-core.
func TestLayout(t *testing.T) {
	needHeaders(t)
	ours := layoutOf(t, compile(t, declarations))
	theirs := layoutOf(t, compile(t, declarations, "-DRDMALOOP_LINKED"))
	isOurs := func(name string) bool { return strings.HasPrefix(name, "ibv_") || strings.HasPrefix(name, "rdma_") }
	structs, values := 0, 0
	for name, size := range ours.sizes {
		if !isOurs(name) {
			continue
		}
		structs++
		require.Contains(t, theirs.sizes, name)
		if shorter[name] {
			require.LessOrEqual(t, size, theirs.sizes[name], name)
		} else {
			require.Equal(t, theirs.sizes[name], size, name)
		}
	}
	for name, place := range ours.fields {
		if isOurs(name) && !strings.Contains(name, ".reserved") {
			require.Equal(t, theirs.fields[name], place, name)
		}
	}
	for name, value := range ours.values {
		if strings.HasPrefix(name, "IBV_") || strings.HasPrefix(name, "RDMA_") || strings.HasPrefix(name, "value_of_") {
			values++
			if _, macro := theirs.values["value_of_"+name]; !macro {
				require.Contains(t, theirs.values, name)
				require.Equal(t, theirs.values[name], value, name)
			}
		}
	}
	require.Greater(t, structs, 30, "the debug information is incomplete")
	require.Greater(t, values, 100, "the debug information is incomplete")
}

// TestPrototypes checks that the functions in rdma.h are those of the headers of rdma-core.
func TestPrototypes(t *testing.T) {
	needHeaders(t)
	compile(t, prototypes, "-DRDMALOOP_LINKED")
}

// TestWarnings checks that the C code compiles without warnings. Programs of users are built
// without these flags.
func TestWarnings(t *testing.T) {
	needCompiler(t)
	files, err := filepath.Glob("*.c")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, name := range files {
		source, err := os.ReadFile(name)
		require.NoError(t, err)
		compile(t, string(source), "-O2", "-Wall", "-Wextra", "-Werror")
	}
}
