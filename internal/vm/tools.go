package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
)

// Required files of the host, with their Debian packages.
var tools = []struct{ pkg, probe string }{
	{"qemu-system-x86", "qemu-system-x86_64"},
	{"gcc", "gcc"},
	{"libc6-dev", "/usr/include/stdlib.h"},
	{"libibverbs-dev", "/usr/include/infiniband/verbs.h"},
	{"librdmacm-dev", "/usr/include/rdma/rdma_cma.h"},
}

// needTools checks that the host has the tools. If this process is root, it installs the
// missing packages. Otherwise the error names them.
func needTools(ctx context.Context) error {
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		return fmt.Errorf("the guest needs linux/amd64, this is %s/%s", runtime.GOOS, runtime.GOARCH)
	}
	if _, err := exec.LookPath("apt-get"); err != nil {
		return errors.New("apt-get not found: the guest is made from Debian packages")
	}
	missing := missingTools()
	if len(missing) == 0 {
		return nil
	}
	install := append([]string{"install", "-q", "-y", "--no-install-recommends"}, missing...)
	if os.Geteuid() != 0 {
		return fmt.Errorf("packages are missing; run: apt-get %s", strings.Join(install, " "))
	}
	if err := command(ctx, "", "apt-get", "update", "-q"); err != nil {
		return err
	}
	if err := command(ctx, "", "apt-get", install...); err != nil {
		return err
	}
	if missing := missingTools(); len(missing) > 0 {
		return fmt.Errorf("missing after the installation: %s", strings.Join(missing, " "))
	}
	return nil
}

func missingTools() (packages []string) {
	for _, tool := range tools {
		_, err := exec.LookPath(tool.probe)
		if strings.HasPrefix(tool.probe, "/") {
			_, err = os.Stat(tool.probe)
		}
		if err != nil {
			packages = append(packages, tool.pkg)
		}
	}
	return packages
}

// command runs a program in dir. If it fails, the error contains its output.
func command(ctx context.Context, dir, name string, args ...string) error {
	_, err := output(ctx, dir, name, args...)
	return err
}

// output runs a program in dir and returns its standard output.
func output(ctx context.Context, dir, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "LC_ALL=C", "DEBIAN_FRONTEND=noninteractive", "CGO_ENABLED=1")
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s: %w\n%s%s", strings.Join(cmd.Args, " "), err, &stdout, &stderr)
	}
	return stdout.String(), nil
}
