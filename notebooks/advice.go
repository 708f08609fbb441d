package main

import (
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
)

// remedies turns what a failed program printed into one line that says what to do.
var remedies = []struct{ printed, advice string }{
	{"No space left on device", "the disk is full: the set-up needs about 1.5 GB (the repository's .forwardpass, and Go's build cache); free some and run the same command again"},
	{"Disk quota exceeded", "your disk quota is used up: the set-up needs about 1.5 GB; free some and run the same command again"},
	{"ensurepip is not available", noVenv},
	{"No module named venv", noVenv},
	{"No module named ensurepip", noVenv},
	{"No matching distribution found", "pip did not find a pinned package: check the network and pip's index setting (pip config list), then run the same command again"},
	{"Could not find a version that satisfies", "pip did not find a pinned package: check the network and pip's index setting (pip config list), then run the same command again"},
	{"Temporary failure in name resolution", offline},
	{"Name or service not known", offline},
	{"nodename nor servname", offline},
	{"no such host", offline},
	{"Network is unreachable", offline},
	{"network is unreachable", offline},
	{"Connection refused", offline},
	{"connection refused", offline},
	{"ReadTimeoutError", offline},
	{"i/o timeout", offline},
	{"ENOTFOUND", offline},
	{"CERTIFICATE_VERIFY_FAILED", "a certificate was refused: behind a company proxy, point SSL_CERT_FILE and PIP_CERT at its certificate"},
	{"Permission denied", "a file cannot be written: is the repository yours? (chown it, or clone it again as this user)"},
	{"permission denied", "a file cannot be written: is the repository yours? (chown it, or clone it again as this user)"},
}

const (
	noVenv  = "this Python has no venv module: on Debian and Ubuntu, apt install python3-venv (or python3.NN-venv for that version), then run the same command again"
	offline = "the package registry cannot be reached: check the network or the proxy settings, then run the same command again"
)

// failure is a program that ended badly: the advice when its output holds a known trouble, else the
// last thing that it printed.
func failure(program string, err error, output string) error {
	for _, r := range remedies {
		if strings.Contains(output, r.printed) {
			return errors.New(r.advice)
		}
	}
	if last := lastLine(output); last != "" {
		return fmt.Errorf("%s: %s", program, last)
	}
	return fmt.Errorf("%s: %s", program, reason(err))
}

// diskFull recognises an error of our own writing; other errors pass.
func diskFull(err error) error {
	if errors.Is(err, syscall.ENOSPC) {
		return errors.New(remedies[0].advice)
	}
	return err
}

func reason(err error) string {
	var missing *exec.Error
	if errors.As(err, &missing) {
		return missing.Name + " not found"
	}
	return err.Error()
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	for i := len(lines) - 1; i >= 0; i-- {
		line := strings.TrimSpace(lines[i])
		if line != "" && !strings.HasPrefix(line, "[notice]") {
			return line
		}
	}
	return ""
}
