package main

import (
	"bytes"
	"debug/elf"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// Kernel modules of the guest. The modules on which they depend are not listed.
var modules = []string{
	// rdma_rxe requests this module at run time, by the name crc32. It is not a declared
	// dependency.
	"crc32_generic",
	"veth", "rdma_rxe", "ib_uverbs", "rdma_ucm",
	"sch_netem",
	// The NVMe host, and a file system for its disks. ext4 requests crc32c at run time.
	"nvme_rdma", "ext4", "crc32c_generic",
	// The kernel's own NVMe target, for comparison.
	"nvmet_rdma",
}

// A loadOrder lists kernel modules, each after the modules on which it depends.
type loadOrder struct {
	// The kernel's module files by module name.
	found map[string]string
	done  map[string]bool
	names []string
	files tree
}

// addModules adds the kernel's modules. It also adds the file modules/order, which lists
// their names in the order of loading.
func (r sysroot) addModules(files tree) error {
	found, err := r.findModules()
	if err != nil {
		return err
	}
	order := &loadOrder{found: found, done: map[string]bool{}, files: files}
	for _, name := range modules {
		if found[name] == "" {
			return fmt.Errorf("the kernel has no module %s", name)
		}
		if err := order.add(name); err != nil {
			return err
		}
	}
	files["modules/order"] = []byte(strings.Join(order.names, "\n") + "\n")
	return nil
}

func (r sysroot) findModules() (map[string]string, error) {
	dir, err := r.find("lib/modules/*/kernel")
	if err != nil {
		return nil, err
	}
	found := map[string]string{}
	err = filepath.WalkDir(filepath.Join(string(r), dir), func(file string, _ fs.DirEntry, err error) error {
		if name, ok := strings.CutSuffix(filepath.Base(file), ".ko"); ok {
			found[moduleName(name)] = file
		}
		return err
	})
	return found, err
}

// moduleName replaces hyphens by underscores. A module may have a hyphen in its file
// name, but an underscore in a list of dependencies.
func moduleName(name string) string { return strings.ReplaceAll(name, "-", "_") }

// add adds a module after the modules on which it depends. A module without a file is
// built into the kernel, so it is left out.
func (o *loadOrder) add(name string) error {
	file := o.found[name]
	if file == "" || o.done[name] {
		return nil
	}
	o.done[name] = true
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	depends, err := moduleDepends(data)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	for _, other := range depends {
		if err := o.add(moduleName(other)); err != nil {
			return err
		}
	}
	o.files[path.Join("modules", name)] = data
	o.names = append(o.names, name)
	return nil
}

// moduleDepends returns the names of the modules on which a module depends. They are in
// the section .modinfo of the module's file. Each entry is key=value and ends in a zero
// byte.
func moduleDepends(module []byte) ([]string, error) {
	file, err := elf.NewFile(bytes.NewReader(module))
	if err != nil {
		return nil, err
	}
	section := file.Section(".modinfo")
	if section == nil {
		return nil, fmt.Errorf("no section .modinfo")
	}
	info, err := section.Data()
	if err != nil {
		return nil, err
	}
	for _, entry := range strings.Split(string(info), "\x00") {
		if list, ok := strings.CutPrefix(entry, "depends="); ok && list != "" {
			return strings.Split(list, ","), nil
		}
	}
	return nil, nil
}
