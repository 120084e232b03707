package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
)

// needTools checks that the host has the programs that the guest is made with. The headers
// of rdma-core are missed when programs are built.
func needTools() error {
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		return fmt.Errorf("the guest needs linux/amd64, this is %s/%s", runtime.GOOS, runtime.GOARCH)
	}
	for _, tool := range []string{"apt-get", "gcc", "qemu-system-x86_64"} {
		if _, err := exec.LookPath(tool); err != nil {
			return fmt.Errorf("%w: on Debian, make deps installs it", err)
		}
	}
	return nil
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
