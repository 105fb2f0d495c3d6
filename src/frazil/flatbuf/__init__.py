"""FlatBuffers: tables read singly or as columns, and written; nothing here knows Icechunk."""
