package main

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// fakeModule returns an ELF file with a section .modinfo and no code.
func fakeModule(t *testing.T, modinfo string) []byte {
	const names = "\x00.modinfo\x00.shstrtab\x00"
	const header, section = 64, 64
	var out bytes.Buffer
	write := func(v any) { require.NoError(t, binary.Write(&out, binary.LittleEndian, v)) }
	write(elf.Header64{
		Ident:   [16]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)},
		Type:    uint16(elf.ET_REL),
		Machine: uint16(elf.EM_X86_64),
		Version: uint32(elf.EV_CURRENT),
		Shoff:   header, Ehsize: header, Shentsize: section, Shnum: 3, Shstrndx: 2,
	})
	write(elf.Section64{})
	write(elf.Section64{Name: 1, Type: uint32(elf.SHT_PROGBITS), Off: header + 3*section, Size: uint64(len(modinfo))})
	write(elf.Section64{Name: 10, Type: uint32(elf.SHT_STRTAB), Off: header + 3*section + uint64(len(modinfo)), Size: uint64(len(names))})
	out.WriteString(modinfo + names)
	return out.Bytes()
}

// fakeKernel returns a directory with files of kernel modules. There is a file for each
// name in the variable modules, and one each for ib-core and udp_tunnel. In this kernel,
// rdma_rxe depends on ib-core, and ib-core depends on udp_tunnel.
func fakeKernel(t *testing.T) sysroot {
	root := t.TempDir()
	dir := filepath.Join(root, "usr", "lib", "modules", "6.1", "kernel", "drivers")
	require.NoError(t, os.MkdirAll(dir, 0o755))
	add := func(name, depends string) {
		module := fakeModule(t, "license=GPL\x00depends="+depends+"\x00name="+name+"\x00")
		require.NoError(t, os.WriteFile(filepath.Join(dir, name+".ko"), module, 0o644))
	}
	for _, name := range modules {
		add(name, "")
	}
	add("rdma_rxe", "ib-core,builtin")
	add("ib-core", "udp_tunnel")
	add("udp_tunnel", "")
	return sysroot(root)
}

func TestModules(t *testing.T) {
	files := tree{}
	require.NoError(t, fakeKernel(t).addModules(files))
	order := strings.Fields(string(files["modules/order"]))
	require.Equal(t, []string{
		"crc32_generic", "veth", "udp_tunnel", "ib_core", "rdma_rxe", "ib_uverbs", "rdma_ucm", "sch_netem",
		"nvme_rdma", "ext4", "crc32c_generic", "nvmet_rdma",
	}, order)
	for _, name := range order {
		require.Contains(t, files, "modules/"+name)
	}
}

func TestModulesMissing(t *testing.T) {
	root := fakeKernel(t)
	require.NoError(t, os.Remove(filepath.Join(string(root), "usr/lib/modules/6.1/kernel/drivers/rdma_ucm.ko")))
	require.ErrorContains(t, root.addModules(tree{}), "no module rdma_ucm")
	require.ErrorContains(t, sysroot(t.TempDir()).addModules(tree{}), "no package has")
}

func TestModuleDepends(t *testing.T) {
	depends, err := moduleDepends(fakeModule(t, "depends=a,b-c\x00"))
	require.NoError(t, err)
	require.Equal(t, []string{"a", "b-c"}, depends)
	depends, err = moduleDepends(fakeModule(t, "depends=\x00"))
	require.NoError(t, err)
	require.Empty(t, depends)
	_, err = moduleDepends([]byte("not a module"))
	require.Error(t, err)
}
