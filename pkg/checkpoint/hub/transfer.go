package hub

import (
	"cmp"
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"
)

// attempts is how often a transfer that breaks off is begun in one call.
const attempts = 4

// bringFile makes sure that the blob of a file is in the cache, and links it into the snapshot.
func (c repoCache) bringFile(ctx context.Context, commit string, f remoteFile, opts Options, m *meter) error {
	link := filepath.Join(c.snapshot(commit), filepath.FromSlash(f.name))
	blob := filepath.Join(c.dir, "blobs", f.hash)
	if sizeOf(link) == f.size {
		m.set(f.name, f.size)
		return nil
	}
	for _, d := range []string{filepath.Dir(link), filepath.Dir(blob)} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return err
		}
	}
	lock := flock.New(blob + ".lock") // another program may fetch the same file
	if _, err := lock.TryLockContext(ctx, 200*time.Millisecond); err != nil {
		return err
	}
	defer lock.Unlock()
	if sizeOf(blob) != f.size {
		if err := download(ctx, f, blob, opts, m); err != nil {
			return err
		}
	}
	m.set(f.name, f.size)
	target, err := filepath.Rel(filepath.Dir(link), blob)
	if err != nil {
		return err
	}
	if err := os.Remove(link); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if os.Symlink(target, link) != nil { // Windows allows it to few users
		return os.Rename(blob, link)
	}
	return nil
}

// download fetches a blob by way of blob.incomplete, which a later call takes up where this one stopped.
func download(ctx context.Context, f remoteFile, blob string, opts Options, m *meter) error {
	part := blob + ".incomplete"
	for try := 1; ; try++ {
		err := transfer(ctx, f, part, opts, m)
		if err == nil {
			break
		}
		if refused := (*statusError)(nil); try == attempts || ctx.Err() != nil || errors.As(err, &refused) {
			return err
		}
		select {
		case <-time.After(time.Duration(try) * time.Second):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if err := verify(part, f); err != nil {
		return errors.Join(err, os.Remove(part)) // from the start, next time
	}
	return os.Rename(part, blob)
}

// statusError is an answer that a second try would not change.
type statusError struct {
	code   int
	status string
}

func (e *statusError) Error() string {
	if e.code == http.StatusUnauthorized || e.code == http.StatusForbidden {
		return "the hub answers " + e.status + ": accept the model's terms there and set HF_TOKEN"
	}
	return "the hub answers " + e.status
}

// transfer appends to part what is missing of a file.
func transfer(ctx context.Context, f remoteFile, part string, opts Options, m *meter) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silence := time.AfterFunc(opts.Patience, func() { cancel(fmt.Errorf("no byte has come for %v", opts.Patience)) })
	defer silence.Stop()
	out, err := os.OpenFile(part, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return err
	}
	defer out.Close()
	have, err := out.Seek(0, io.SeekEnd)
	if err != nil || have == f.size {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, f.url, nil)
	if err != nil {
		return err
	}
	if opts.Token != "" {
		req.Header.Set("Authorization", "Bearer "+opts.Token) // not sent on to another host by redirects
	}
	req.Header.Set("Accept-Encoding", "identity")
	if have > 0 && have < f.size {
		req.Header.Set("Range", fmt.Sprintf("bytes=%d-", have))
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return cmp.Or(context.Cause(ctx), err)
	}
	defer resp.Body.Close()
	switch {
	case resp.StatusCode == http.StatusPartialContent && resp.Header.Get("Content-Range") == fmt.Sprintf("bytes %d-%d/%d", have, f.size-1, f.size):
	case resp.StatusCode == http.StatusOK: // the whole file, asked for or not
		have = 0
		if err := errors.Join(out.Truncate(0), rewind(out)); err != nil {
			return err
		}
	case resp.StatusCode >= 500 || resp.StatusCode == http.StatusTooManyRequests:
		return fmt.Errorf("the hub answers %s", resp.Status)
	default:
		return &statusError{resp.StatusCode, resp.Status}
	}
	body := io.LimitReader(resp.Body, f.size-have+1) // one more, to notice a file that is too long
	n, err := io.Copy(&countingWriter{out, have, func(n int64) {
		silence.Reset(opts.Patience)
		m.set(f.name, min(n, f.size))
	}}, body)
	switch {
	case err != nil:
		return cmp.Or(context.Cause(ctx), err)
	case have+n != f.size:
		return fmt.Errorf("want %d bytes, got %d", f.size, have+n)
	}
	return out.Close()
}

func rewind(f *os.File) error {
	_, err := f.Seek(0, io.SeekStart)
	return err
}

// countingWriter tells how many bytes have come, those before it included.
type countingWriter struct {
	w     io.Writer
	n     int64
	count func(int64)
}

func (c *countingWriter) Write(b []byte) (int, error) {
	n, err := c.w.Write(b)
	c.n += int64(n)
	c.count(c.n)
	return n, err
}

// verify compares a file with the hash that names it: SHA-256, or git's SHA-1 of "blob <size>\x00" and the bytes.
func verify(path string, f remoteFile) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	var h hash.Hash = sha256.New()
	if len(f.hash) == 2*sha1.Size {
		h = sha1.New()
		fmt.Fprintf(h, "blob %d\x00", f.size)
	}
	if _, err := io.Copy(h, file); err != nil {
		return err
	}
	if got := hex.EncodeToString(h.Sum(nil)); got != f.hash {
		return fmt.Errorf("the file has hash %s, want %s: it was damaged on the way", got, f.hash)
	}
	return nil
}

// sizeOf is the size of a file, or -1.
func sizeOf(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return -1
	}
	return info.Size()
}
