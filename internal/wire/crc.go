package wire

import "hash/crc32"

// crcUpdate adds bytes to a CRC with the polynomial crc32.IEEE, as crc32.Update does.
func crcUpdate(sum uint32, b []byte) uint32 {
	if hasCRCWords && len(b) >= minCRCWords && len(b)%4 == 0 {
		return ^crcWords(^sum, b)
	}
	return crc32.Update(sum, crc32.IEEETable, b)
}

// minCRCWords is the smallest number of bytes that crcWords takes.
const minCRCWords = 16
