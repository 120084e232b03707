//go:build !linux

package monitor

import (
	"errors"
	"io/fs"
	"net"

	"github.com/rdmaloop/rdmaloop/verbs"
)

func supported() error {
	return &verbs.FeatureError{Feature: "monitor", Reason: errors.New("only Linux tells the user of a peer")}
}

func allowed(*net.UnixConn) bool { return false }

func ownedByThisUser(fs.FileInfo) bool { return false }
