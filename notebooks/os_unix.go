//go:build linux || darwin

package main

import (
	"context"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// lockHome makes two set-ups of one clone wait for each other. The lock ends with the process.
func lockHome(ctx context.Context, p places, waiting func()) (unlock func(), err error) {
	if err := os.MkdirAll(p.home, 0o755); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(p.home, "lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	for told := false; ; told = true {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { f.Close() }, nil
		}
		if err != syscall.EWOULDBLOCK && err != syscall.EINTR {
			f.Close()
			return nil, err
		}
		if !told {
			waiting()
		}
		select {
		case <-ctx.Done():
			f.Close()
			return nil, ctx.Err()
		case <-time.After(redraw):
		}
	}
}

// freeBytes is the room left for this user on the disk that holds path.
func freeBytes(path string) (int64, error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(path, &st); err != nil {
		return 0, err
	}
	return int64(st.Bavail) * int64(st.Bsize), nil
}

// become replaces this process by a program, which then gets the terminal and its signals.
func become(program string, args, env []string) error {
	return syscall.Exec(program, append([]string{program}, args...), env)
}
