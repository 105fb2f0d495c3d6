// Reads one row of an array over HTTP, as a page or a service would.
import * as zarr from "zarrita";

const array = await zarr.open(new zarr.FetchStore(process.argv[2]), { kind: "array" });
const row = await zarr.get(array, [3, 30, null]);
const values = Array.from(row.data, (value) => (Number.isNaN(value) ? null : value));
console.log(JSON.stringify({ shape: array.shape, values }));
