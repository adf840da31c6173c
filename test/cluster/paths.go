// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
)

// BinDir returns the directory of the binaries: UNITED_BIN_DIR, or bin/ of the repository.
func BinDir() (string, error) {
	if dir := os.Getenv("UNITED_BIN_DIR"); dir != "" {
		return filepath.Abs(dir)
	}
	root, err := Root()
	if err != nil {
		return "", fmt.Errorf("UNITED_BIN_DIR is not set, and %w", err)
	}
	return filepath.Join(root, "bin"), nil
}

// Root returns the root of the repository: the nearest directory at or above the working directory that has a go.mod.
// (The working directory of a Go test is that of its package.)
func Root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("finding the repository: %w", err)
	}
	for start := dir; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("finding the repository: no go.mod at or above %s", start)
		}
	}
}

// The kernel uses ports from 32768 up for outgoing connections, so nothing can take a lower one between its choice and
// its use.
const lowestPort, highestPort = 20000, 32000

// FreePort returns a TCP port of 127.0.0.1 that is free, and that no other cluster on this machine will choose, in any
// process, until this cluster is stopped.
func (c *Cluster) FreePort() (int, error) {
	for range highestPort - lowestPort {
		port := lowestPort + rand.IntN(highestPort-lowestPort)
		reservation, err := reservePort(port)
		if err != nil {
			continue
		}
		c.mu.Lock()
		c.ports = append(c.ports, reservation)
		c.mu.Unlock()
		return port, nil
	}
	return 0, errors.New("free port: none found")
}

// reservePort binds the UDP port of the same number, which nothing uses, as a lock that ends with this process, and then
// checks that nothing listens on the TCP port.
func reservePort(port int) (io.Closer, error) {
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	lock, err := net.ListenPacket("udp", address)
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return lock, listener.Close()
}
