"""The generations before FlatBuffers as bytes: G1 in Parquet, G2 in JSON, G3 in MessagePack."""
