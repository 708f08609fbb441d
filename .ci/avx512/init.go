// Command init is the only program of the machine that .ci/avx512.sh imitates, apart from the tests that it runs.
package main

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"
)

func main() {
	tests := exec.Command("/kernel.test", "-test.v", "-test.timeout=0")
	tests.Stdin, tests.Stdout, tests.Stderr = os.Stdin, os.Stdout, os.Stderr
	err := tests.Run()
	fmt.Printf("tests ended: %v\n", err)
	time.Sleep(time.Second) // the serial line is slow
	syscall.Reboot(syscall.LINUX_REBOOT_CMD_POWER_OFF)
}
