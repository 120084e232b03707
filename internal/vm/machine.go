package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
)

// A machine is a guest that is ready to be started.
type machine struct {
	kernel, initrd string
	accel          string
}

// run runs the guest until it switches itself off. What it writes to its serial
// port goes to console.
func (m *machine) run(ctx context.Context, console io.Writer) error {
	cmd := exec.CommandContext(ctx, "qemu-system-x86_64",
		"-accel", m.accel, "-cpu", "max", "-smp", "2", "-m", "1024", "-nic", "none",
		"-display", "none", "-monitor", "none", "-serial", "stdio",
		"-no-reboot", // a guest that wants to start again has ended
		"-kernel", m.kernel, "-initrd", m.initrd,
		// Without hardware help the kernel distrusts the processor's clock, and
		// takes one that costs more to read than a message to send.
		"-append", "console=ttyS0 quiet oops=panic panic=-1 tsc=reliable",
	)
	cmd.Stdout, cmd.Stderr = console, os.Stderr
	err := cmd.Run()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		return fmt.Errorf("the guest did not end well: %w", err)
	}
	return nil
}
