package main

import (
	"bytes"
	"debug/elf"
	"fmt"
	"os"
	"path"
	"path/filepath"
)

// Programs for the guest's directory usr/bin. The comments name their packages.
var packagedPrograms = []string{
	"busybox",          // package busybox-static
	"ip", "rdma", "tc", // package iproute2
	"ibv_devinfo",                  // package ibverbs-utils
	"rping", "rstream", "ucmatose", // package rdmacm-utils
	"ib_send_bw", "ib_send_lat", // package perftest
	"setpriv", "nsenter", // package util-linux
	"mke2fs", "e2fsck", // package e2fsprogs
	"fio", "nvme", // programs of the packages fio and nvme-cli
}

// Files that the guest's programs open while they run. neededBy can not find them. Their
// paths in the guest are the same as in the packages.
var runtimeFiles = []string{
	"etc/libibverbs.d/rxe.driver",
	"lib/*/libibverbs/librxe-*.so",
	"lib/*/libgcc_s.so.1", // the C library opens it for pthread_exit(3)
}

// Path of the dynamic loader, as in the PT_INTERP header of each program.
const loader = "lib64/ld-linux-x86-64.so.2"

// A sysroot is a directory of unpacked packages.
type sysroot string

// find returns the relative path of the first file that matches a pattern. It looks below
// the root and below usr.
func (r sysroot) find(patterns ...string) (string, error) {
	for _, pattern := range patterns {
		for _, usr := range []string{"", "usr"} {
			found, err := filepath.Glob(filepath.Join(string(r), usr, pattern))
			if err != nil {
				return "", err
			}
			if len(found) > 0 {
				return filepath.Rel(string(r), found[0])
			}
		}
	}
	return "", fmt.Errorf("no package has %s", patterns[0])
}

// addPrograms adds the programs with all files that they need.
func (r sysroot) addPrograms(files tree) error {
	for _, name := range packagedPrograms {
		file, err := r.find("bin/"+name, "sbin/"+name)
		if err != nil {
			return err
		}
		if err := r.add(files, path.Join("usr/bin", name), file); err != nil {
			return err
		}
	}
	for _, pattern := range runtimeFiles {
		file, err := r.find(pattern)
		if err != nil {
			return err
		}
		if err := r.add(files, file, file); err != nil {
			return err
		}
	}
	file, err := r.find("lib/*/" + path.Base(loader))
	if err != nil {
		return err
	}
	return r.add(files, loader, file)
}

// add adds a file and the libraries that it needs.
func (r sysroot) add(files tree, target, file string) (err error) {
	if _, have := files[target]; have {
		return nil
	}
	if files[target], err = os.ReadFile(filepath.Join(string(r), file)); err != nil {
		return err
	}
	libraries, err := neededBy(files[target])
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	for _, library := range libraries {
		if library == path.Base(loader) {
			continue
		}
		// librados looks for a library in a directory of its own.
		file, err := r.find("lib/*/"+library, "lib/*/*/"+library)
		if err != nil {
			return fmt.Errorf("%s: %w", target, err)
		}
		if err := r.add(files, file, file); err != nil {
			return err
		}
	}
	return nil
}

// neededBy lists the libraries that a program or library needs. For files of other kinds
// the list is empty.
func neededBy(data []byte) ([]string, error) {
	if !bytes.HasPrefix(data, []byte(elf.ELFMAG)) {
		return nil, nil
	}
	file, err := elf.NewFile(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	return file.ImportedLibraries()
}
